"""Workers that are agents of other frameworks: each in a process of its own, thinking through a real gateway."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from apps.accounts.models import ApiToken, Project, User
from apps.base.errors import BadInputError
from apps.evals.asking import ask_evaluation
from apps.evals.models import Evaluation, Item, Taskset
from apps.inference.models import MEASURED_TURN, Exchange, Session
from apps.rollouts import services as rollouts
from apps.rollouts.models import Rollout
from apps.rollouts.selectors import make_records
from apps.scoring.services import score_tasks
from apps.tasks.errors import NoAnswerError
from apps.tasks.models import Attempt, Task
from apps.tasks.offering import measure, take_in
from apps.tasks.services import work_tasks
from apps.workers.agents import works_outside
from apps.workers.kinds import KINDS
from apps.workers.models import Worker
from apps.workers.services import create_worker
from tentalis.contract.scripted_model import Asked, Call, ScriptedModel
from tests.apps.gateway.running import GatewayProcess, make_provider
from tests.bench.packages import put_package
from tests.factories import make_task

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.broker]
PACKAGE = Path(__file__).parents[2] / "plugged" / "flow_package.py"
PROMPT = "What is 40 plus 2?"


def script(asked: Asked) -> str | Call:
    if asked.said.startswith("Reader"):
        return f"{asked.said[:8]} has read it."
    if asked.tools and not asked.results:
        return Call("add", {"a": 40, "b": 2})
    return f"It is {asked.results[-1]}." if asked.results else "I see."


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    put_package(
        tmp_path, "flow_package", PACKAGE, "[tentalis.agents]\nadder = flow_package:Adder\nodd = flow_package:Odd\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # the gateway knows the kinds too
    monkeypatch.setenv("TENTALIS_HOME", str(tmp_path))
    KINDS.forget()
    yield
    KINDS.forget()


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(script, tells_tokens=True) as server:
        yield server


@pytest.fixture
def workers(project: Project, alice: User, model: ScriptedModel, settings: Settings) -> Iterator[dict[str, Worker]]:
    """One of each kind, and a gateway that knows them."""
    provider = make_provider(project, model.url, default_model="scripted")
    asked: dict[str, Any] = {"project": project, "provider": provider, "base_model": "scripted", "by": alice}
    sampling = {"temperature": 1.0, "max_tokens": 32}
    made = {kind: create_worker(name=kind, kind=kind, sampling=sampling, **asked) for kind in ("adder", "odd")}
    with GatewayProcess() as running:
        settings.TENTALIS = settings.TENTALIS | {"GATEWAY_URL": running.url, "TASK_TIMEOUT_SECONDS": 60.0}
        yield made


def test_what_the_gateway_saw_is_the_episode_link_by_link_and_token_for_token(
    project: Project, model: ScriptedModel, workers: dict[str, Worker]
) -> None:
    worker = workers["adder"]
    assert works_outside(worker)
    task = make_task(project, worker, prompt=PROMPT, group_size=2, reference={"match": "contains", "value": "42"})
    work_tasks([task.pk], by="test")
    first, second = task.attempts.order_by("index")
    assert (first.text, first.answer, first.unfit, first.further.count()) == ("It is 42.", "It is 42.", "", 3)
    assert Session.objects.filter(project=project).count() == 2, "each try is a session of its own"
    steps = list(first.steps.values_list("kind", "tool_name", "tool_result", "text"))
    assert [step[:3] for step in steps[:2]] == [("call", "add", "42"), ("answer", "", "")]
    assert {step[3] for step in steps[2:]} == {"Reader 1 has read it.", "Reader 2 has read it."}
    assert {(one.body["temperature"], one.body["max_tokens"]) for one in model.asked} == {(1.0, 32)}
    assert ApiToken.objects.get(user__username=f"flow.adder@{project.slug}").scopes == ["gateway:use"]
    assert set(Exchange.objects.values_list("task_id", "turn", "worker_name")) == {(task.pk, "main", "adder")}

    score_tasks([task.pk])
    Task.objects.filter(pk=task.pk).update(state="learning")
    rollouts.build_rollouts([task.pk], by="ledger")
    rollout = Rollout.objects.get(attempt=first)
    assert (rollout.is_usable, rollout.unusable_reason) == (True, "")
    calls = [first.exchange, *(one.exchange for one in first.further_calls)]
    said = [bytes(call.unpack_token_ids()).decode() for call in calls if call is not None]
    assert said[1] == "It is 42."
    records = make_records([rollout])
    sampled = bytes(
        token
        for record in records
        for token, is_sampled in zip(record.token_ids, record.sampled, strict=True)
        if is_sampled
    )
    assert all(words.encode() in sampled for words in said)
    assert second.answer == first.answer


def test_a_try_that_fails_says_why_and_one_that_broke_off_behind_its_model_is_wrong_not_lost(
    project: Project, workers: dict[str, Worker]
) -> None:
    for prompt, answer in (("answer", "my own word"), ("secrets", "none"), ("raise", "")):
        task = make_task(project, workers["odd"], prompt=prompt, group_size=1)
        work_tasks([task.pk], by="test")
        attempt = Attempt.objects.get(task=task)
        assert (attempt.state, attempt.answer, attempt.unfit, attempt.error) == ("answered", answer, "", "")
    for prompt, error in (("nothing", "ValueError: before anything"), ("exit", "its agent did not end in time")):
        task = make_task(project, workers["odd"], prompt=prompt, group_size=1)
        with pytest.raises(NoAnswerError, match=error):
            work_tasks([task.pk], by="test")


def test_it_wants_a_model_by_name(project: Project, alice: User) -> None:
    with pytest.raises(BadInputError, match="a adder worker needs a model's name"):
        create_worker(project=project, name="bare", kind="adder", by=alice)


def test_it_is_measured_by_tries_of_its_own_that_are_held_out(
    project: Project, alice: User, model: ScriptedModel, workers: dict[str, Worker]
) -> None:
    worker = workers["adder"]
    taskset = Taskset.objects.create(project=project, name="sums", version=1, environment="chat")
    for number in range(3):
        value = "42" if number else "43"
        Item.objects.create(
            taskset=taskset, split="held_out", prompt=f"{number}: {PROMPT}",
            reference={"match": "contains", "value": value}, content_hash=f"{number:064x}", bands=[],
        )  # fmt: skip
    evaluation = ask_evaluation(worker=worker, by=alice, taskset=taskset, is_greedy=True)
    measure(evaluation.pk, by="test")
    tries = list(Task.objects.filter(evaluation=evaluation))
    assert len(tries) == 3
    for one in tries:
        work_tasks([one.pk], by="test")
    Attempt.objects.update(created_at="2020-01-01T00:00:00Z")
    evaluation.refresh_from_db()
    take_in(evaluation, by="test")
    found = evaluation.item_tries.order_by("outcome").values_list("outcome", "reason")
    assert [outcome for outcome, _ in found] == [0.0, 1.0, 1.0], list(found)
    assert set(Exchange.objects.values_list("turn", flat=True)) == {MEASURED_TURN}
    assert {one.body["temperature"] for one in model.asked} == {0.0}
    assert Evaluation.objects.get().state in {"running", "done"}
