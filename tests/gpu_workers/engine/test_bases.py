"""Several base models behind one address: read when asked for, making room, back with what was loaded on them."""

import asyncio
import json
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from gpu_workers.engine import Engine
from gpu_workers.engine.bases import Bases, count_bytes
from gpu_workers.engine.server import ADAPTER_HEADER, EngineServer
from tests.gpu_workers.engine.test_adapter_checks import write_manifest

pytestmark = pytest.mark.torch
Client = TestClient[Any, Any]
ASKED = {"prompt": "Order: 3 mug", "max_tokens": 3, "temperature": 0, "return_token_ids": True}


@pytest.fixture
def kept_in(tmp_path: Path, model_directory: Callable[[str], Path]) -> Path:
    for name in ("qwen2", "llama", "gemma3"):
        shutil.copytree(model_directory(name), tmp_path / "models" / name)
    return tmp_path / "models"


@pytest.fixture
async def client(kept_in: Path, model_directory: Callable[[str], Path]) -> AsyncIterator[Client]:
    """Room for two of the three."""
    most_bytes = count_bytes(kept_in / "qwen2") + max(count_bytes(kept_in / name) for name in ("llama", "gemma3"))
    first = Engine("first", model_directory("qwen3"), max_rows=64)
    server = EngineServer(Bases(first, kept_in=kept_in, most_bytes=most_bytes, max_rows=64), host="127.0.0.1")
    async with TestClient(TestServer(server.app, handler_cancellation=True)) as found:
        server.start()
        yield found
        await server.stop(drain_s=5)


async def ask(client: Client, model: str, status: int = 200) -> Any:
    response = await client.post("/v1/completions", json=ASKED | {"model": model})
    assert response.status == status, await response.text()
    found = await response.json()
    return found["error"] if status != 200 else (response.headers[ADAPTER_HEADER], found["choices"][0]["token_ids"])


def write_made_for(base: Path, adapter: Path) -> Path:
    """The adapter, which says whose it is."""
    config = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps(config | {"base_model_name_or_path": str(base)}))
    return adapter


async def count_loaded(client: Client) -> str:
    text = await (await client.get("/metrics")).text()
    return next(line for line in text.splitlines() if line.startswith("tentalis_engine_bases ")).split()[1]


async def test_each_name_is_answered_by_its_own_model_and_who_was_asked_longest_ago_makes_room(
    client: Client, kept_in: Path, write_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    assert await count_loaded(client) == "1.0"
    alone = {}
    for name in ("qwen2", "llama", "gemma3"):
        engine = Engine(name, kept_in / name)
        prompt = engine.codec.encode([str(ASKED["prompt"])], add_special_tokens=True)
        alone[name] = [int(token) for token in engine.generate(prompt, max_tokens=3, temperature=0)[0][0].token_ids]
    adapter = write_made_for(kept_in / "qwen2", write_adapter(tmp_path / "a"))
    loading = {"lora_name": "w@v1", "lora_path": str(adapter)}
    assert (await client.post("/v1/load_lora_adapter", json=loading)).status == 200
    adapted = await ask(client, "w@v1")
    assert adapted[0] == "w@v1"
    for name in ("llama", "gemma3", "qwen2"):  # each the one that was just put away, or never read
        assert await ask(client, name) == (name, alone[name])
        assert float(await count_loaded(client)) <= 3
    assert await ask(client, "w@v1") == adapted  # with its base again, without anybody loading it
    cards = (await (await client.get("/v1/models")).json())["data"]
    assert {(card["id"], card["parent"]) for card in cards} == {
        *((name, None) for name in ("first", "qwen2", "llama", "gemma3")),
        ("w@v1", "qwen2"),
    }
    assert (await client.post("/v1/unload_lora_adapter", json={"lora_name": "w@v1"})).status == 200
    assert "w@v1" not in {card["id"] for card in (await (await client.get("/v1/models")).json())["data"]}


async def test_a_base_that_made_room_still_says_where_its_adapters_lie(
    client: Client, kept_in: Path, write_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    """Who loaded them compares: other weights under their name are refused for good."""
    adapter = write_made_for(kept_in / "qwen2", write_adapter(tmp_path / "a"))
    loading = {"lora_name": "w@v1", "lora_path": str(adapter)}
    assert (await client.post("/v1/load_lora_adapter", json=loading)).status == 200
    for name in ("llama", "gemma3"):
        await ask(client, name)
    cards = {card["id"]: card for card in (await (await client.get("/v1/models")).json())["data"]}
    assert cards["qwen2"]["fingerprint"] == "", "it is in memory no more"
    assert (cards["w@v1"]["root"], cards["w@v1"]["parent"]) == (str(adapter), "qwen2")
    assert (await client.post("/v1/unload_lora_adapter", json={"lora_name": "w@v1"})).status == 200
    cards = {card["id"]: card for card in (await (await client.get("/v1/models")).json())["data"]}
    assert "w@v1" not in cards
    assert cards["qwen2"]["fingerprint"] == "", "its base was not read for that"
    await ask(client, "qwen2")
    assert (await ask(client, "w@v1", 404))["code"] == "model_not_found"


@pytest.mark.parametrize("name", ["first", "qwen2", "llama", "w@v1"])
async def test_an_adapter_takes_no_name_of_another_base_or_of_its_adapters(
    client: Client, kept_in: Path, write_adapter: Callable[..., Path], tmp_path: Path, name: str
) -> None:
    mine = write_made_for(kept_in / "qwen2", write_adapter(tmp_path / "a"))
    loading = {"lora_name": "w@v1", "lora_path": str(mine)}
    assert (await client.post("/v1/load_lora_adapter", json=loading)).status == 200
    other = write_made_for(kept_in / "gemma3", write_adapter(tmp_path / "b"))
    refused = await client.post("/v1/load_lora_adapter", json={"lora_name": name, "lora_path": str(other)})
    assert (refused.status, (await refused.json())["error"]["code"]) == (400, "adapter_name_taken")
    assert (await ask(client, name))[0] == name


async def test_an_adapter_of_a_base_that_is_kept_no_more_is_not_served_over_the_first(
    client: Client, kept_in: Path, write_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    adapter = write_adapter(tmp_path / "a", "qwen3")  # the shapes are the first one's
    write_manifest(adapter, base=str(kept_in / "gone"), base_sha256="a" * 64)
    refused = await client.post("/v1/load_lora_adapter", json={"lora_name": "w@v1", "lora_path": str(adapter)})
    error = (await refused.json())["error"]
    assert (refused.status, error["code"]) == (400, "adapter_refused")
    assert f"must hash to {'a' * 64}, as {kept_in / 'gone'} did" in error["message"]


async def test_what_is_not_there_too_large_or_broken_is_named_and_harms_nobody(client: Client, kept_in: Path) -> None:
    assert (
        "no model 'nope' is served; there are first, gemma3, llama, qwen2"
        in (await ask(client, "nope", 404))["message"]
    )
    weights = next((kept_in / "llama").glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:100])
    assert "is no whole safetensors file" in (await ask(client, "llama", 500))["message"]
    await ask(client, "qwen2")
    text = await (await client.get("/metrics")).text()
    assert 'tentalis_engine_arithmetic{device="cpu",model_name="qwen2",precision="float32"} 1.0' in text


async def test_a_model_larger_than_the_memory_is_refused_before_it_is_read(
    kept_in: Path, model_directory: Callable[[str], Path]
) -> None:
    bases = Bases(Engine("first", model_directory("qwen3")), kept_in=kept_in, most_bytes=1000)
    server = EngineServer(bases, host="127.0.0.1")
    async with TestClient(TestServer(server.app)) as client:
        server.start()
        found = await ask(client, "qwen2", 507)
        assert found["code"] == "model_too_large"
        assert "TENTALIS_ENGINE_MEMORY_MIB" in found["message"]
        await server.stop(drain_s=5)


async def test_what_is_kept_of_prompts_has_the_memory_that_weights_leave(
    kept_in: Path, model_directory: Callable[[str], Path]
) -> None:
    room = 100_000
    first = Engine("first", model_directory("qwen3"))
    bases = Bases(first, kept_in=kept_in, most_bytes=count_bytes(kept_in / "qwen2") + room)
    server = EngineServer(bases, host="127.0.0.1")
    async with TestClient(TestServer(server.app)) as client:
        server.start()
        for place in range(12):
            asked = {"prompt": [3 + (7 * place + step) % 500 for step in range(100)], "max_tokens": 1}
            assert (await client.post("/v1/completions", json=asked | {"model": "first"})).status == 200
        assert first.scheduler.kept_bytes > room
        await ask(client, "qwen2")
        for _ in range(100):
            if first.scheduler.kept_bytes <= room / 2:
                break
            await asyncio.sleep(0.01)
        assert 0 < first.scheduler.kept_bytes <= room / 2, "of two engines each has half of it"
        await server.stop(drain_s=5)


class _Gate:
    """In the place of `Engine.open`: notes what is read, and reads it once the gate is open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.is_open = threading.Event()
        self._open = Engine.open
        monkeypatch.setattr(Engine, "open", self.open)

    def open(self, model: str, **settings: Any) -> Engine:
        self.asked.append(Path(model).name)
        assert self.is_open.wait(120)
        return self._open(model, **settings)

    async def let_leave(self, bases: Bases, name: str) -> None:
        """Ask for a model, and give up once it is read, or waits for what is."""
        before = len(self.asked)

        async def use() -> None:
            async with bases.hold(name):
                pytest.fail("it was read")

        task = asyncio.create_task(use())
        with suppress(TimeoutError):
            async with asyncio.timeout(0.3 if before else 30):
                while len(self.asked) == before:
                    await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_what_nobody_waits_for_any_more_is_read_once_and_one_at_a_time(
    kept_in: Path, model_directory: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    most_bytes = max(count_bytes(kept_in / name) for name in ("qwen2", "llama"))
    bases = Bases(Engine("first", model_directory("qwen3")), kept_in=kept_in, most_bytes=most_bytes)
    gate = _Gate(monkeypatch)
    for name in ("qwen2", "llama", "qwen2", "llama"):
        await gate.let_leave(bases, name)
    assert gate.asked == ["qwen2"], "the next one waits for room"
    gate.is_open.set()
    async with bases.hold("llama") as engine:
        assert engine.base.name == "llama"
        assert [one.base.name for one in bases.loaded()] == ["first", "llama"]
    assert gate.asked == ["qwen2", "llama"]
    assert bases.stop(drain_s=5)


async def test_a_reading_that_fails_is_told_to_all_who_wait_and_tried_again_for_the_next(
    kept_in: Path, model_directory: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    bases = Bases(Engine("first", model_directory("qwen3")), kept_in=kept_in, most_bytes=1 << 30)
    gate = _Gate(monkeypatch)
    config = kept_in / "qwen2" / "tokenizer.json"
    words = config.read_bytes()
    config.unlink()

    async def ask() -> str:
        async with bases.hold("qwen2") as engine:
            return engine.base.name

    await gate.let_leave(bases, "qwen2")
    waiting = [asyncio.create_task(ask()) for _ in range(2)]
    await asyncio.sleep(0)
    gate.is_open.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert ["holds no tokenizer.json" in str(one) for one in found] == [True, True]
    config.write_bytes(words)
    assert await ask() == "qwen2"
    assert gate.asked == ["qwen2", "qwen2"]
    assert bases.stop(drain_s=5)
