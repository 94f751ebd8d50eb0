"""A model at Tinker behind the engine's routes: exact tokens, adapters by their paths, refusals in words."""

import dataclasses
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("tinker", reason="the client of Tinker is not installed: pip install 'tentalis[tinker]'")

from apps.inference.client import ModelClient
from apps.inference.errors import AdapterNameTakenError, ProviderBusyError, ProviderRefusedError
from gpu_workers.artifacts import path_from_uri
from gpu_workers.backends.tinker.engine_adapter import RemoteModel, ServiceFailedError, TinkerEngine
from gpu_workers.backends.tinker.service import find_service, open_client
from gpu_workers.engine import Engine
from gpu_workers.engine.jobs import Job, SamplingOptions
from gpu_workers.runner import run
from tentalis.core.contracts import TrainResult
from tests.gpu_workers.learning.training_factory import make_rollouts, make_spec, tiny_model
from tests.gpu_workers.test_tinker import make_tinker_spec
from tests.gpu_workers.tinker_door import run_door
from tests.gpu_workers.tinker_server import KEY, MODEL, TinkerServer, serve

pytestmark = pytest.mark.torch
PROMPT = [2, 9, 20, 7, 3]
CLOSE_NATS = 1e-4
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[TinkerServer]:
    with serve(TinkerServer()) as server:
        yield server


@pytest.fixture(scope="module")
def url(server: TinkerServer) -> Iterator[str]:
    with run_door(server, tiny_model()) as url:
        yield url


@pytest.fixture(autouse=True)
def _at_the_service(server: TinkerServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TENTALIS_TINKER_URL", server.url)
    monkeypatch.setenv("TENTALIS_TINKER_API_KEY", KEY)
    yield
    for kept in (server.fails, server.refuses, server.holds):
        kept.clear()


@pytest.fixture
def client(url: str) -> ModelClient:
    return ModelClient(url, "", kind="vllm", allow_private=True)


def train(directory: Path) -> TrainResult:
    result = run(dataclasses.replace(make_tinker_spec(directory), run_id=next(NUMBERS)), lambda _: None)
    assert result.ok, f"{result.error_type}: {result.error_message}"
    return result


def find_gap(ours: Any, theirs: Any) -> float:
    return max(abs(float(a) - float(b)) for a, b in zip(ours, theirs, strict=True))


def test_an_adapter_trained_there_answers_there_as_its_export_does_here(
    client: ModelClient, server: TinkerServer, tmp_path: Path
) -> None:
    directory = path_from_uri(train(tmp_path).adapter_uri)
    client.load_adapter("p.w@v1", str(directory))
    client.load_adapter("p.w@v1", str(directory))
    assert client.find_directories()["p.w@v1"] == str(directory)
    engine = Engine.open(str(tiny_model()), name="tiny")
    engine.load_adapter("p.w@v1", directory)
    before = len(server.requests)
    ((first, second),) = client.sample([PROMPT], model="p.w@v1", n=2, max_tokens=12, temperature=1.0, top_k=3)
    assert list(first.token_ids) != list(second.token_ids)
    for sample in (first, second):
        row = list(sample.token_ids)
        (ours,), (base,) = engine.score([PROMPT], [row], "p.w@v1"), engine.score([PROMPT], [row])
        assert find_gap(sample.logprobs, ours) < CLOSE_NATS
        assert find_gap(sample.logprobs, base) > 10 * CLOSE_NATS
        scored = client.score([[*PROMPT, *row]], model="p.w@v1")[0][-len(row) :]
        assert find_gap(scored, ours) < CLOSE_NATS
        assert [len(top) for top in sample.top] == [3] * len(row)
        assert sample.served_by == "p.w@v1"
        assert list(sample.prompt_token_ids) == PROMPT
    asked = [sent for name, sent in server.requests[before:] if name == "asample"]
    assert asked[0]["num_samples"] == 2
    assert all("seed" not in sent["sampling_params"] or sent["sampling_params"]["seed"] is None for sent in asked)
    client.unload_adapter("p.w@v1")
    with pytest.raises(ProviderRefusedError, match=r"no model 'p\.w@v1' is served"):
        client.score([PROMPT], model="p.w@v1")


def test_answers_end_where_the_engine_would_end_them(client: ModelClient) -> None:
    engine = Engine.open(str(tiny_model()), name="tiny")
    [[whole]] = client.sample([PROMPT], model="base", max_tokens=20, temperature=0.0)
    ((ours,),) = engine.generate([PROMPT], temperature=0.0, max_tokens=20, keeps_stop=True)
    assert (list(whole.token_ids), whole.text, whole.finish_reason) == (ours.token_ids, ours.text, ours.finish_reason)
    stop_id = ours.token_ids[3]
    [[by_id]] = client.sample([PROMPT], model="base", max_tokens=20, temperature=0.0, stop_token_ids=[stop_id])
    ((there,),) = engine.generate(
        [PROMPT], temperature=0.0, max_tokens=20, stop_token_ids=frozenset([stop_id]), keeps_stop=True
    )
    assert (list(by_id.token_ids), by_id.text, by_id.finish_reason) == (there.token_ids, there.text, "stop")
    word = engine.codec.decode([ours.token_ids[2]])
    [[by_text]] = client.sample([PROMPT], model="base", max_tokens=20, temperature=0.0, stop=[word])
    ((there,),) = engine.generate([PROMPT], temperature=0.0, max_tokens=20, stops=(word,), keeps_stop=True)
    assert (list(by_text.token_ids), by_text.text, by_text.finish_reason) == (there.token_ids, there.text, "stop")
    assert len(by_text.logprobs) == len(there.token_ids) < len(ours.token_ids)


def test_a_stream_says_what_the_whole_answer_says(client: ModelClient, url: str) -> None:
    body = {"model": "base", "prompt": PROMPT, "max_tokens": 12, "temperature": 0.0, "return_token_ids": True}
    whole = httpx.post(f"{url}/v1/completions", json=body, timeout=30).json()["choices"][0]
    with httpx.stream("POST", f"{url}/v1/completions", json=body | {"stream": True}, timeout=30) as answer:
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert lines[-1] == "[DONE]"
    chunks = [json.loads(line)["choices"][0] for line in lines[:-1]]
    assert "".join(chunk["text"] for chunk in chunks) == whole["text"]
    assert [token for chunk in chunks for token in chunk["token_ids"]] == whole["token_ids"]
    assert chunks[-1]["finish_reason"] == whole["finish_reason"]


def test_a_conversation_is_read_by_the_models_own_template(client: ModelClient) -> None:
    (sample,) = client.chat([{"role": "user", "content": "w1 w2"}], model="base", max_tokens=4, temperature=0.0)
    base = TinkerServer().base
    assert tuple(sample.prompt_token_ids) == base.read_prompt([{"role": "user", "content": "w1 w2"}])
    assert len(sample.logprobs) == len(sample.token_ids) > 0


def test_what_was_not_trained_there_is_not_served_there(client: ModelClient, tmp_path: Path) -> None:
    here = run(make_spec(tmp_path / "here", make_rollouts()), lambda _: None)
    with pytest.raises(ProviderRefusedError, match="was not trained at Tinker, which serves its own alone") as refused:
        client.load_adapter("p.w@v9", str(path_from_uri(here.adapter_uri)))
    assert refused.value.server_code == "adapter_not_kept_at_service"
    scaled = path_from_uri(train(tmp_path / "there").adapter_uri)
    (scaled / "manifest.json").unlink()
    with pytest.raises(ProviderRefusedError, match="only what was trained at Tinker is served there"):
        client.load_adapter("p.w@v9-x0.5", str(scaled))


def test_a_file_that_was_changed_and_a_path_that_is_gone_are_refused(
    client: ModelClient, server: TinkerServer, tmp_path: Path
) -> None:
    directory = path_from_uri(train(tmp_path).adapter_uri)
    left = json.loads((directory / "tinker.json").read_bytes())
    kept = server.saved.pop(left["sampler"])
    with pytest.raises(ProviderRefusedError, match="no such checkpoint"):
        client.load_adapter("p.w@v8", str(directory))
    server.saved[left["sampler"]] = kept
    (directory / "tinker.json").write_text(json.dumps(left | {"sampler": "tinker://somebody/else"}))
    with pytest.raises(ProviderRefusedError, match="must hash to"):
        client.load_adapter("p.w@v8", str(directory))
    assert "p.w@v8" not in client.list_models()


def test_a_name_is_never_given_to_other_weights(client: ModelClient, tmp_path: Path) -> None:
    first, second = (str(path_from_uri(train(tmp_path / name).adapter_uri)) for name in "ab")
    client.load_adapter("p.w@v7", first)
    with pytest.raises(AdapterNameTakenError, match="never given to other weights"):
        client.load_adapter("p.w@v7", second)


@pytest.mark.parametrize(
    ("category", "error"), [("user", ProviderRefusedError), ("server", ProviderBusyError)], ids=["its", "theirs"]
)
def test_what_the_service_fails_with_is_told_without_the_key(
    client: ModelClient, server: TinkerServer, category: str, error: type[Exception]
) -> None:
    server.fails["asample"] = f"too heavy for {KEY}"
    server.category = category
    with pytest.raises(error, match="too heavy for …"):
        client.sample([PROMPT], model="base", max_tokens=4, temperature=1.0)


def test_what_it_cannot_do_is_refused_in_words(client: ModelClient, url: str) -> None:
    with pytest.raises(ProviderRefusedError, match="the model's context is 64 tokens"):
        client.sample([PROMPT], model="base", max_tokens=100, temperature=1.0)
    with pytest.raises(ProviderRefusedError, match="Tinker does not tell"):
        client.load_reward_head("head", "/somewhere")
    client.sample([PROMPT], model="base", max_tokens=4, temperature=1.0)
    metrics = httpx.get(f"{url}/metrics", timeout=30).text
    assert re.search(r'vllm:request_success_total\{finished_reason="(length|stop)",model_name="base"\} \d', metrics)
    assert "vllm:num_requests_running 0.0" in metrics


class Unsendable:
    """A sampler whose client does not even send what it is asked."""

    def sample(self, *_: Any, **__: Any) -> None:
        raise RuntimeError("the event loop is closed")


def test_what_the_client_does_not_even_send_is_under_way_no_more() -> None:
    address = find_service()
    client = open_client(address, name="tests")
    engine = TinkerEngine(client, address, name="base", model=MODEL, base=tiny_model())
    model = RemoteModel("base", engine.base.model, "", MODEL, sampler=Unsendable())
    job = Job(model, [PROMPT], SamplingOptions(seed=0))
    engine.submit(job)
    assert isinstance(job.error, ServiceFailedError)
    assert "sampling by base: RuntimeError: the event loop is closed" in str(job.error)
    assert engine.scheduler.running_rows == 0
    assert engine.stop(drain_s=0)


def test_without_a_key_or_a_model_it_does_not_open(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from gpu_workers.backends.tinker.__main__ import main

    assert main(["--base", str(tiny_model())]) == 1
    assert "options.model: wanted the service's name of the base model" in capsys.readouterr().err
    monkeypatch.setenv("TENTALIS_TINKER_API_KEY", "sk-1")
    assert main(["--base", str(tiny_model()), "--model", MODEL]) == 1
    assert "must begin with tml- or eyJ" in capsys.readouterr().err
    assert main(["--base", "/no/such/model", "--model", MODEL]) == 1
