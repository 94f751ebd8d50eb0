"""Whether answers kept their length: asked of the server the candidate would serve on, before it may."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import Project
from apps.adapters.errors import AdapterBrokenError
from apps.adapters.models import Adapter
from apps.adapters.serving import client_of, load
from apps.gate.gating import gate_adapter
from apps.gate.second_metrics import ask_lengths, can_ask_lengths
from apps.inference.models import Provider
from apps.rollouts.models import Batch
from apps.training import results, services
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tentalis.core.learning.lengths import FILE, LengthQuestion
from tests.apps.adapters.desk_adapters import make_served
from tests.factories import make_worker
from tests.fakes import FakeModelServer

pytestmark = pytest.mark.django_db
PROMPTS = [[5 + number, 6, 7] for number in range(10)]


@pytest.fixture(autouse=True)
def store(tmp_path: Path, settings: Any) -> Path:
    settings.ARTIFACTS = tmp_path
    return tmp_path


@pytest.fixture
def vllm() -> Iterator[FakeModelServer]:
    """It loads adapters, and answers as many words as the version asked for has for its first digit; the base two."""
    with FakeModelServer() as server:

        def reply(prompt: str, index: int) -> str:
            asked = server.requests[-1].body["model"]
            return " word" * (int(asked.partition("@v")[2][0]) if "@v" in asked else 2)

        server.reply = reply
        server.encode(" ".join(f"w{number}" for number in range(40)))
        yield server


@pytest.fixture
def helper(project: Project, vllm: FakeModelServer) -> Worker:
    provider = Provider.objects.create(
        project=project, name="box", kind="vllm", base_url=vllm.url, allow_private=True, default_model="desk"
    )
    return make_worker(project, "helper", provider=provider)


def leave_question(store: Path, **changes: Any) -> None:
    values: dict[str, Any] = {"prompts": PROMPTS, "answers": 4, "max_tokens": 12, "seed": 3, "most_drift": 0.2}
    (store / FILE).write_text(json.dumps(LengthQuestion(**(values | changes)).to_json()))


def test_parent_and_candidate_are_asked_on_the_server_that_serves_them(
    helper: Worker, vllm: FakeModelServer, store: Path
) -> None:
    parent, candidate = (make_served(helper, version, store) for version in (4, 5))
    leave_question(store)
    load(candidate)
    vllm.requests.clear()
    found = ask_lengths(candidate)
    assert found is not None
    asked = [one.body for one in vllm.requests if one.path == "/v1/completions"]
    assert [(one["model"], len(one["prompt"])) for one in asked] == [
        (parent.name, 8), (parent.name, 2), (candidate.name, 8), (candidate.name, 2),
    ]  # fmt: skip
    assert all((one["n"], one["max_tokens"], one["temperature"]) == (4, 12, 1.0) for one in asked)
    assert [one["seed"] for one in asked[:2]] == [one["seed"] for one in asked[2:]] == [3, 11]
    assert (found.details["length_before_tokens"], found.details["length_after_tokens"]) == (5.0, 6.0)
    assert (
        "10 held-out prompts have 6.0 tokens where they had 5.0, sampled by box (vllm), which serves it" in found.words
    )
    assert not found.fault


def test_what_is_no_question_is_said_and_none_is_none(helper: Worker, store: Path) -> None:
    candidate = make_served(helper, 1, store)
    assert ask_lengths(candidate) is None
    for text in ("{}", "[", json.dumps({"schema": "tentalis.lengths/2"})):
        (store / FILE).write_text(text)
        with pytest.raises(AdapterBrokenError, match=FILE):
            ask_lengths(candidate)


@pytest.mark.parametrize(("kind", "option"), [("vllm", "server"), ("engine", "server"), ("openai", None)])
def test_only_a_server_that_loads_adapters_is_asked(project: Project, kind: str, option: str | None) -> None:
    provider = Provider.objects.create(project=project, name=kind, kind=kind, base_url="http://127.0.0.1:9")
    worker = make_worker(project, "other", provider=provider)
    run = TrainingRun(worker=worker, recipe={"algorithm": "dpo"}, backend="standalone", purpose="policy")
    assert can_ask_lengths(worker) is (option is not None)
    assert services._describe_backend(run).get("options", {}).get("lengths") == option
    run.recipe = {"algorithm": "grpo"}
    assert services._describe_backend(run) == {}


@pytest.mark.torch
def test_our_own_engine_is_asked_through_its_door(
    project: Project, desk_engine: str, settings: Any, store: Path
) -> None:
    settings.ENGINE_URL = desk_engine
    worker = make_worker(project, "helper", kind="desk", base_model="desk")
    candidate = make_served(worker, 1, store)
    leave_question(store, most_drift=1.0)
    try:
        load(candidate)
        found = ask_lengths(candidate)
        assert found is not None
        assert "sampled by the installation's own engine, which serves it" in found.words
        before, after = found.details["length_before_tokens"], found.details["length_after_tokens"]
        assert 1 <= before <= 12
        assert 1 <= after <= 12
        assert before != after
        again = ask_lengths(candidate)
        assert again == found, "the same seeds give the same answers"
    finally:
        client_of(worker).unload_adapter(candidate.name)


@pytest.mark.torch
def test_answers_of_another_length_are_refused_by_the_gate_in_words(
    project: Project, desk_engine: str, settings: Any, store: Path
) -> None:
    settings.ENGINE_URL = desk_engine
    worker = make_worker(project, "helper", kind="desk", base_model="desk")
    candidate = make_served(worker, 9, store, state=Adapter.State.CANDIDATE)
    leave_question(store, most_drift=0.0)
    batch = Batch.objects.create(project=project, worker=worker, number=1, target_tasks=1, state="closed")
    run = TrainingRun.objects.create(
        project=project, worker=worker, batch=batch, state="succeeded", recipe={}, seed=1, summary={"updates": 1}
    )
    Adapter.objects.filter(pk=candidate.pk).update(run_id=run.pk)
    try:
        gate_adapter(candidate.pk, by="gate")
    finally:
        client_of(worker).unload_adapter(candidate.name)
    candidate.refresh_from_db()
    assert candidate.state == Adapter.State.REFUSED
    verdict = candidate.verdicts.get(question="safe")
    assert verdict.words.startswith("refused: answers have ")
    assert "% off, 0% are allowed; answers to 10 held-out prompts have " in verdict.words
    results.note_measured(candidate)
    run.refresh_from_db()
    assert run.summary["updates"] == 1
    assert run.summary["length_drift"] == verdict.details["lengths"]["length_drift"] > 0
    assert [one["gate"] for one in run.gates] == ["G5", "G9"]
    assert not (store / FILE).exists(), "people's prompts are kept no longer than they are asked"
