"""Adapters on a real vLLM server, its CPU build: two versions at once, swaps under load, drains, restarts.

Runs when asked for by name (`pytest -m vllm`), see `vllm_process`.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from django.db import transaction

from apps.accounts.models import Project
from apps.adapters import services, serving
from apps.adapters.artifacts import path_of
from apps.adapters.errors import AdapterNotServableError, WrongAdapterServedError
from apps.adapters.models import Adapter
from apps.adapters.vllm_compat import require_servable
from apps.audit.kinds import Kind
from apps.inference.client import ModelClient
from apps.inference.errors import AdapterNameTakenError, AdapterNotLoadedError, ProviderRefusedError
from apps.inference.providers import create_provider
from apps.workers.models import Worker
from gpu_workers.desk import base_directory
from gpu_workers.engine import Engine
from tests.apps.adapters.desk_adapters import make_served, write_adapter
from tests.factories import make_user, make_worker
from tests.integrations.vllm_process import API_KEY, MARKS, MAX_CPU_LORAS, VllmServer

BEARER = {"Authorization": f"Bearer {API_KEY}"}
AGREED_NATS = 1e-3
PROMPTS = [[5, 9, 20, 7, 33], [12, 4, 100, 41], [7, 7, 250, 18, 60, 2]]

pytestmark = MARKS


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    server = VllmServer(tmp_path_factory.mktemp("vllm") / "server.log")
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture
def client(vllm: VllmServer) -> Iterator[ModelClient]:
    found = ModelClient(vllm.url, API_KEY, kind="vllm", allow_private=True)
    yield found
    for name in set(found.list_models()) - {"desk"}:
        found.unload_adapter(name)


@pytest.fixture
def store(tmp_path: Path, settings: Any) -> Path:
    settings.ARTIFACTS = tmp_path
    return tmp_path


@pytest.fixture
def helper(project: Project, vllm: VllmServer) -> Worker:
    provider = create_provider(
        project=project,
        name="box",
        kind="vllm",
        base_url=vllm.url,
        api_key=API_KEY,
        allow_private=True,
        default_model="desk",
        by=make_user("root", is_superuser=True),
    )
    return make_worker(project, "helper", provider=provider)


@pytest.fixture(scope="module")
def engine() -> Engine:
    torch.set_num_threads(1)
    return Engine.open(str(base_directory()), name="desk")


def serve(adapter: Adapter) -> None:
    """As the pipeline does it, gate aside."""
    serving.load(adapter)
    serving.probe(adapter)
    adapter.refresh_from_db()
    with transaction.atomic():
        services.deploy(adapter.worker, adapter, by="gate", kind=Kind.DEPLOYMENT_MOVED)
    serving.unload_unused(adapter.pk)


@pytest.mark.django_db
def test_mixed_requests_for_two_versions_agree_with_our_engine(
    helper: Worker, client: ModelClient, store: Path, engine: Engine, vllm: VllmServer
) -> None:
    adapters = [make_served(helper, version, store) for version in (1, 2)]
    for adapter in adapters:
        serving.load(adapter)
        serving.probe(adapter)
        engine.load_adapter(adapter.name, path_of(adapter.uri))
    names = ["desk", *(adapter.name for adapter in adapters)]
    told: list[tuple[str, int, list[int], list[float], list[float]]] = []

    def ask(name: str) -> None:
        for index, samples in enumerate(client.sample(PROMPTS, model=name, max_tokens=40, temperature=1.0, n=4)):
            for sample in samples:
                row = list(sample.token_ids)
                scored = client.score([[*PROMPTS[index], *row]], model=name)[0][-len(row) :]
                told.append((name, index, row, list(sample.logprobs), scored))

    run_together([partial(ask, name) for name in names])
    gaps = dict.fromkeys(names, 0.0)
    for name, index, row, sampled, scored in told:
        ours = engine.score([PROMPTS[index]], [row], None if name == "desk" else name)[0]
        found = [*zip(sampled, ours, strict=True), *zip(scored, ours, strict=True)]
        gaps[name] = max(gaps[name], *(abs(float(theirs - mine)) for theirs, mine in found))
    print(f"started in {vllm.started_in_s:.0f} s; largest gap to our engine, nats: {gaps}")  # noqa: T201
    assert len(told) == len(names) * len(PROMPTS) * 4
    assert max(gaps.values()) < AGREED_NATS
    for prompt in PROMPTS:
        rows = [client.score([prompt], model=name)[0] for name in names]
        assert len({tuple(round(value, 3) for value in row) for row in rows}) == 3, "each has its own weights"


@pytest.mark.django_db
def test_a_wrong_version_under_a_name_is_found_out(helper: Worker, client: ModelClient, store: Path) -> None:
    first, second = make_served(helper, 1, store), make_served(helper, 2, store)
    for adapter in (first, second):
        serving.load(adapter)
        serving.probe(adapter)
    client.unload_adapter(second.name)
    client.load_adapter(second.name, str(path_of(first.uri)))
    with pytest.raises(WrongAdapterServedError, match="serves other weights"):
        serving.probe(second)
    with pytest.raises(AdapterNameTakenError):
        serving.load(second)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"use_dora": True}, "DoRA"),
        ({"bias": "all"}, "bias"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights"),
        ({"rank": 32}, "start it with --max-lora-rank 32"),
        ({"rename": "qq_proj"}, "expected target modules"),
    ],
)
def test_what_we_refuse_vllm_refuses_too(
    config: dict[str, Any], words: str, client: ModelClient, tmp_path: Path
) -> None:
    directory = write_adapter(tmp_path / "a", 1, **config)
    if not {"rank", "rename"} & set(config):  # those are the server's to say
        with pytest.raises(AdapterNotServableError):
            require_servable(directory)
    with pytest.raises(AdapterNotLoadedError, match=words):
        client.load_adapter("p.w@v1", str(directory))
    assert client.list_models() == ["desk"]


@pytest.mark.parametrize("config", [{"use_rslora": True}, {"alpha_pattern": {"q_proj": 4}}, {"rank": 3}])
def test_what_we_let_through_vllm_serves(config: dict[str, Any], client: ModelClient, tmp_path: Path) -> None:
    directory = write_adapter(tmp_path / "a", 1, **config)
    require_servable(directory)
    client.load_adapter("p.w@v1", str(directory))
    assert all(map(math.isfinite, client.score([PROMPTS[0]], model="p.w@v1")[0]))


def test_a_name_and_a_place_are_told_apart(client: ModelClient, tmp_path: Path) -> None:
    first, second = (str(write_adapter(tmp_path / name, seed)) for seed, name in enumerate("ab"))
    client.load_adapter("p.w@v1", first)
    client.load_adapter("p.w@v1", first)
    with pytest.raises(AdapterNameTakenError):
        client.load_adapter("p.w@v1", second)
    with pytest.raises(AdapterNotLoadedError, match="does not see"):
        client.load_adapter("p.w@v2", str(tmp_path / "nowhere"))
    with pytest.raises(ProviderRefusedError):
        client.load_adapter("desk", first)


def test_more_adapters_than_it_holds_come_back_from_their_directories(client: ModelClient, tmp_path: Path) -> None:
    names = [f"p.w@v{number}" for number in range(MAX_CPU_LORAS + 2)]
    before = {}
    for seed, name in enumerate(names):
        client.load_adapter(name, str(write_adapter(tmp_path / name, seed)))
        before[name] = client.score([PROMPTS[0]], model=name)[0]
    after = {name: client.score([PROMPTS[0]], model=name)[0] for name in names}
    assert all(after[name] == pytest.approx(before[name], abs=AGREED_NATS) for name in names)


@pytest.mark.django_db
def test_swaps_under_load_drop_nothing_and_each_answer_is_of_its_version(
    helper: Worker, client: ModelClient, store: Path, engine: Engine
) -> None:
    adapters = [make_served(helper, version, store) for version in (1, 2, 3, 4)]
    serve(adapters[0])
    current, is_over = [adapters[0].name], threading.Event()
    answers: list[tuple[str, list[int], list[float]]] = []
    failures: list[str] = []

    def ask(seed: int) -> None:
        for number in range(10_000):
            if is_over.is_set():
                return
            name = current[0]
            try:
                [[sample]] = client.sample(
                    [PROMPTS[0]], model=name, max_tokens=48, temperature=1.0, seed=1000 * seed + number
                )
                answers.append((name, list(sample.token_ids), list(sample.logprobs)))
            except ProviderRefusedError as error:
                failures.append(str(error))

    def swap() -> None:
        for adapter in adapters[1:]:
            wait_for_more(answers)
            serve(adapter)
            current[0] = adapter.name
        wait_for_more(answers)

    asking = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in asking:
        thread.start()
    try:
        swap()
    finally:
        is_over.set()
        for thread in asking:
            thread.join()
    for adapter in adapters:
        engine.load_adapter(f"{adapter.name}-under-load", path_of(adapter.uri))
    worst = 0.0
    for name, row, told in answers:
        ours = engine.score([PROMPTS[0]], [row], f"{name}-under-load")[0]
        worst = max(worst, *(abs(a - b) for a, b in zip(told, ours, strict=True)))
    print(f"{len(answers)} answers over 3 swaps, {len(failures)} failures, largest gap {worst:.2e} nats")  # noqa: T201
    assert failures == []
    assert {name for name, _, _ in answers} == {adapter.name for adapter in adapters}
    assert worst < AGREED_NATS, "an answer that changed its weights on the way would be far off"


@pytest.mark.django_db
def test_what_is_asked_stays_until_it_has_answered(
    helper: Worker, client: ModelClient, store: Path, vllm: VllmServer
) -> None:
    first, second, third = (make_served(helper, version, store) for version in (1, 2, 3))
    serve(first)
    serve(second)
    body = {"model": first.name, "prompt": PROMPTS[0], "max_tokens": 240, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", f"{vllm.url}/v1/completions", json=body, headers=BEARER, timeout=60.0) as answer:
        lines = answer.iter_lines()
        next(lines)
        serve(third)
        assert first.name in client.find_busy_adapters()
        assert first.name in client.list_models(), "it has a request under way"
        assert [line for line in lines if line][-1] == "data: [DONE]"
    wait_until(lambda: first.name not in client.find_busy_adapters())
    assert serving.unload_drained() == 1
    assert set(client.list_models()) == {"desk", second.name, third.name}


@pytest.mark.django_db
def test_a_server_that_was_killed_gets_back_what_served(
    helper: Worker, client: ModelClient, store: Path, vllm: VllmServer
) -> None:
    adapter = make_served(helper, 1, store)
    serve(adapter)
    before = client.score([PROMPTS[0]], model=adapter.name)[0]
    vllm.kill()
    vllm.start()
    assert client.list_models() == ["desk"]
    assert serving.restore_served() == 1
    assert client.score([PROMPTS[0]], model=adapter.name)[0] == pytest.approx(before, abs=AGREED_NATS)


def test_its_key_does_not_guard_the_other_door(client: ModelClient, vllm: VllmServer, tmp_path: Path) -> None:
    """Why its address must be private: `/adapters` loads adapters too, and asks for no key."""
    body = {"name": "p.w@v1", "src": str(write_adapter(tmp_path / "a", 1))}
    front = {"lora_name": "p.w@v1", "lora_path": body["src"]}
    assert httpx.post(f"{vllm.url}/v1/load_lora_adapter", json=front, timeout=30.0).status_code == 401
    assert httpx.post(f"{vllm.url}/adapters", json=body, timeout=30.0).is_success
    assert "p.w@v1" in client.list_models()


def run_together(calls: Sequence[Callable[[], None]]) -> None:
    with ThreadPoolExecutor(len(calls)) as pool:
        for done in [pool.submit(call) for call in calls]:
            done.result()


def wait_for_more(answers: Sequence[object], more: int = 30) -> None:
    wanted = len(answers) + more
    wait_until(lambda: len(answers) >= wanted)


def wait_until(holds: Callable[[], bool], patience_s: float = 120.0) -> None:
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
