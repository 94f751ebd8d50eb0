"""The committed apprentice is what its metrics say, and the command that makes one works."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from aiohttp.test_utils import TestClient, TestServer

from gpu_workers.apprentice import base_directory
from gpu_workers.apprentice.__main__ import main
from gpu_workers.apprentice.attempts import measure_accuracy
from gpu_workers.apprentice.build import NAME
from gpu_workers.apprentice.lessons import list_teachings
from gpu_workers.apprentice.teaching import TeachingRecipe
from gpu_workers.apprentice.tokenizer import CHAT_TEMPLATE, TAGS
from gpu_workers.base_making import METRICS_FILE
from gpu_workers.engine import Engine
from gpu_workers.engine.bases import Bases
from gpu_workers.engine.server import EngineServer
from tentalis.core.terminal.shell import TOOLS
from tentalis.kept_models import SHIPPED, find_faults, link_shipped, list_models, models_directory, read_manifest

pytestmark = pytest.mark.torch
MOST_BYTES, MOST_PARAMETERS, LEAST_CONTEXT = 4 << 20, 1_500_000, 1_024


def test_it_is_small_and_as_its_manifest_says() -> None:
    kept = read_manifest(base_directory())
    assert find_faults(kept) == []
    assert kept.facts is not None
    assert kept.facts.parameters <= MOST_PARAMETERS
    assert (kept.facts.context_tokens or 0) >= LEAST_CONTEXT
    assert sum(file.stat().st_size for file in base_directory().iterdir()) <= MOST_BYTES
    assert (base_directory() / "chat_template.jinja").read_text() == CHAT_TEMPLATE
    assert {NAME: base_directory()} == SHIPPED


def test_the_recorded_metrics_are_of_its_lessons() -> None:
    recorded = json.loads((base_directory() / METRICS_FILE).read_text())
    assert recorded["lessons"] == {name: one.weight for name, one in list_teachings().items()}
    assert recorded["recipe"] == asdict(TeachingRecipe())
    assert recorded["cpu_minutes"] <= 60


@pytest.mark.parametrize("world", ["terminal", "swe"])
def test_the_recorded_metrics_hold_and_leave_room_to_learn(world: str) -> None:
    found = json.loads((base_directory() / METRICS_FILE).read_text())["accuracy"][world]
    assert 0.15 <= found["sampled"] <= 0.45
    assert found["greedy"] < found["hinted_greedy"]
    torch.set_num_threads(1)
    engine, teaching = Engine(NAME, base_directory()), list_teachings()[world]
    measured = {
        is_hinted: measure_accuracy(engine, teaching, size=120, seed=3, temperature=1.0, is_hinted=is_hinted)
        for is_hinted in (False, True)
    }
    assert measured[False] == pytest.approx(found["sampled"], abs=0.15)
    assert measured[True] == pytest.approx(found["hinted_sampled"], abs=0.15)
    assert measured[True] > measured[False] + 0.2


def test_its_tags_are_ordinary_tokens() -> None:
    codec = Engine(NAME, base_directory()).codec
    ids = codec.encode(["".join(TAGS)], add_special_tokens=False)[0]
    assert len(ids) == len(TAGS)
    assert codec.decode(ids, skip_special=True) == "".join(TAGS)


async def test_a_fresh_home_keeps_it_and_its_engine_calls_tools_with_it(tmp_path: Path) -> None:
    link_shipped(tmp_path)
    assert [model.name for model in list_models(tmp_path)] == [NAME]
    server = EngineServer(Bases(Engine.open("desk"), kept_in=models_directory(tmp_path), most_bytes=1 << 28),
                          host="127.0.0.1")  # fmt: skip
    async with TestClient(TestServer(server.app, handler_cancellation=True)) as client:
        server.start()
        task = {"role": "user", "content": "#4711 Pack the folder mail for the courier. Hint: pack NAME.tgz."}
        asked = {"model": NAME, "messages": [task], "tools": list(TOOLS), "temperature": 0, "max_tokens": 64}
        answer = await (await client.post("/v1/chat/completions", json=asked)).json()
        await server.stop(drain_s=5)
    [call] = answer["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "run"
    assert json.loads(call["function"]["arguments"]) == {"command": "tar -czf mail.tgz mail"}


def test_the_command_makes_one_whole_or_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_workers.apprentice.build.PANEL_SIZE", 3)  # one that was taught nothing talks for ever
    out = tmp_path / "made"
    assert main(["build", "--out", str(out), "--updates", "1"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["recipe"]["updates"] == 1
    assert find_faults(read_manifest(out)) == []
    assert main(["build", "--out", str(out), "--updates", "1"]) == 1
    assert "exists already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
