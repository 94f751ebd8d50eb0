"""Who may use the engine: who has its key, with adapters from the artifact directory, by a name it answers to."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from gpu_workers.engine import Engine
from gpu_workers.engine.__main__ import main
from gpu_workers.engine.server import EngineServer

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")]

Client = TestClient[Any, Any]
KEY = "key-of-the-engine"
ASKED = {"model": "tiny", "prompt": "Order", "max_tokens": 1}


@pytest.fixture
async def client(model_directory: Callable[[str], Path], tmp_path: Path) -> AsyncIterator[Client]:
    (tmp_path / "artifacts").mkdir()
    engine = Engine("tiny", model_directory("qwen2"), max_rows=4, max_waiting=4)
    server = EngineServer(engine, host="0.0.0.0", key=KEY, root=tmp_path / "artifacts", names=["engine"])
    async with TestClient(TestServer(server.app, handler_cancellation=True)) as found:
        server.start()
        yield found
        await server.stop(drain_s=5)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize("headers", [{}, bearer(""), bearer("wrong"), {"Authorization": KEY}, bearer("\udce9")])
async def test_without_the_key_nothing_is_answered(client: Client, headers: dict[str, str]) -> None:
    for path in (
        "/v1/completions",
        "/v1/load_lora_adapter",
        "/v1/unload_lora_adapter",
        "/v1/load_reward_head",
        "/tokenize",
    ):
        assert (await client.post(path, json=ASKED, headers=headers)).status == 401, path
    assert (await client.get("/v1/models", headers=headers)).status == 401


async def test_health_and_figures_are_open_as_with_vllm(client: Client) -> None:
    assert (await client.get("/health")).status == 200
    assert (await client.get("/metrics")).status == 200


async def test_with_the_key_it_answers(client: Client) -> None:
    answer = await client.post("/v1/completions", json=ASKED, headers=bearer(KEY))
    assert answer.status == 200, await answer.text()


@pytest.mark.parametrize("body", [("lora", "/v1/load_lora_adapter"), ("head", "/v1/load_reward_head")])
async def test_nothing_is_loaded_from_outside_the_artifact_directory(
    client: Client, tmp_path: Path, body: tuple[str, str]
) -> None:
    name, path = body
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (tmp_path / "artifacts" / "link").symlink_to(outside)
    for place in (outside, tmp_path / "artifacts" / ".." / "elsewhere", tmp_path / "artifacts" / "link", Path("/etc")):
        asked = {f"{name}_name": "a", f"{name}_path": str(place)}
        answer = await client.post(path, json=asked, headers=bearer(KEY))
        assert answer.status == 400
        assert "must lie in the artifact directory" in (await answer.json())["error"]["message"]


async def test_it_answers_to_its_own_names_alone_also_where_others_reach_it(client: Client) -> None:
    assert (await client.get("/health", headers={"Host": "engine:8300"})).status == 200
    assert (await client.get("/health", headers={"Host": "attacker.example"})).status == 403


def test_it_lets_nobody_in_from_elsewhere_without_a_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TENTALIS_ENGINE_KEY", raising=False)
    with pytest.raises(SystemExit) as stopped:
        main(["--host", "0.0.0.0"])
    assert stopped.value.code == 2
    assert "set TENTALIS_ENGINE_KEY" in capsys.readouterr().err
