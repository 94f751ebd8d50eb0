"""A worker whose agent is elsewhere is measured by that agent's own tries, for which the gate waits."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter, Verdict
from apps.evals.asking import ask_evaluation
from apps.evals.holding import find_held_out
from apps.evals.limits import RunLimits
from apps.evals.models import Evaluation, ItemTry, Taskset
from apps.evals.panels import LEAST_OWN
from apps.evals.streaming import ROUNDS
from apps.gate.awaiting import find_answered
from apps.gate.gating import gate_adapter
from apps.inference.models import MEASURED_TURN, Exchange
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.tasks import offering
from apps.tasks.models import Attempt, Task
from apps.training.services import is_unsettled
from apps.workers.models import Worker
from tentalis.core.packing import pack_bools, pack_float32, pack_int32
from tests.apps.adapters.desk_adapters import make_served
from tests.apps.adapters.vllm_stub import VllmStub
from tests.apps.gate.conftest import hold_out, make_boxed_worker
from tests.links import run_link

pytestmark = pytest.mark.django_db
LONG_AGO = "2020-01-01T00:00:00Z"


@pytest.fixture
def server() -> Iterator[VllmStub]:
    with VllmStub() as stub:
        yield stub


@pytest.fixture
def harness(project: Project, server: VllmStub) -> Worker:
    project.gate_policy = {"panel_size": 40, "sweep_size": 0}
    project.save()
    return make_boxed_worker(project, server, "harness", Worker.Kind.OUTSIDE)


def call(task: Task, adapter: str | None = None) -> Exchange:
    """A call of its agent's, as the gateway stores it."""
    name = task.pins["0"] if adapter is None else adapter
    return Exchange.objects.create(
        project=task.project, worker_name=task.worker.name, model=name or "desk", adapter_name=name, turn=MEASURED_TURN,
        task_id=task.pk, text="said", prompt_token_ids=pack_int32([1, 2]), token_ids=pack_int32([7, 8]),
        logprobs=pack_float32([-0.5, -0.5]), sampled=pack_bools([True, True]), finish_reason="stop",
    )  # fmt: skip


def do(task: Task, by: User, adapter: str | None = None) -> None:
    """What an agent does that knows nothing of evaluations: the base model adds right where the sum is even."""
    call(task, adapter)
    number = int(task.prompt.split()[-1])
    knows = {"v1": True, "v2": False}
    is_right = next((right for name, right in knows.items() if f"@{name}-" in task.pins["0"]), number % 2 == 0)
    flow.submit_own_attempt(task=task, steps=[], answer=str(2 * number + (not is_right)), by=by)


def list_offered() -> list[Task]:
    return list(Task.objects.filter(state=Task.State.QUEUED).select_related("worker", "project").order_by("pk"))


def take_in() -> None:
    Attempt.objects.update(created_at=LONG_AGO)
    for evaluation in Evaluation.objects.filter(state=Evaluation.State.WAITING):
        offering.measure(evaluation.pk, by="evals")


def go_on(adapter: Adapter, by: User, *, most: int = 12) -> int:
    """Let the agent do all that is offered, and the gate ask anew, until it has decided; how many rounds."""
    for rounds in range(1, most + 1):
        gate_adapter(adapter.pk, by="gate")
        adapter.refresh_from_db()
        if not adapter.is_awaiting:
            return rounds
        assert (find_answered(), is_unsettled(adapter.worker_id)) == ([], True)
        for task in list_offered():
            do(task, by)
        take_in()
        assert [pk for pk, _ in find_answered()] == [adapter.pk]
    raise AssertionError("the gate asked for ever")


def test_the_gate_decides_by_the_tries_of_an_agent_that_knows_nothing_of_it(
    harness: Worker, store: Path, alice: User
) -> None:
    hold_out(harness.project, 40)
    adapter = make_served(harness, 1, store, state=Adapter.State.CANDIDATE)
    rounds = go_on(adapter, alice)
    safe, proved = (Verdict.objects.get(question=question) for question in ("safe", "proved"))
    assert (adapter.state, safe.outcome, proved.outcome) == ("verified", "yes", "yes")
    assert "improved by +50.0" in proved.words
    tasks = list(Task.objects.all())
    assert {task.state for task in tasks} == {"done"}
    assert find_held_out(tasks) == {task.pk for task in tasks}, "nothing is learnt from any of them"
    assert set(Segment.objects.values_list("kind", flat=True)) == {"evaluate"}
    assert {one.turn for one in Exchange.objects.all()} == {MEASURED_TURN}
    assert rounds < 12
    worse = make_served(harness, 2, store, state=Adapter.State.CANDIDATE)
    go_on(worse, alice)
    assert worse.state == "refused"


def test_the_time_that_an_agent_elsewhere_takes_is_counted_and_a_budget_of_it_holds(
    harness: Worker, alice: User
) -> None:
    hold_out(harness.project, 3)
    taskset = Taskset.objects.get()
    asked = ask_evaluation(worker=harness, by=alice, taskset=taskset, limits=RunLimits(minutes=1.5))
    offering.measure(asked.pk, by="evals")
    began = timezone.now() - timedelta(minutes=10)
    Task.objects.update(created_at=began)
    for minutes, state in ((1, "waiting"), (2, "paused")):
        do(list_offered()[0], alice)
        newest = Attempt.objects.latest("pk")
        Attempt.objects.filter(pk=newest.pk).update(created_at=began + timedelta(minutes=minutes))
        offering.take_in(Evaluation.objects.get(), by="evals")
        asked.refresh_from_db()
        assert (asked.state, asked.played, asked.seconds) == (state, minutes, 60.0 * minutes)
    assert "1.5 minutes" in asked.failure
    assert offering.withdraw(by="evals") == 1
    assert list_offered() == []


def test_a_killed_gate_offers_no_try_twice(harness: Worker, store: Path) -> None:
    hold_out(harness.project, 40)
    adapter = make_served(harness, 1, store, state=Adapter.State.CANDIDATE)
    for _ in range(2):
        gate_adapter(adapter.pk, by="gate")
    places = [(task.evaluation_id, task.metadata["evaluation"]["item"]) for task in list_offered()]
    assert len(places) == len(set(places)) > 0


def test_a_try_that_is_not_handed_in_is_offered_again_and_never_counts_as_wrong(
    harness: Worker, store: Path, alice: User
) -> None:
    hold_out(harness.project, LEAST_OWN)
    adapter = make_served(harness, 1, store, state=Adapter.State.CANDIDATE)
    gate_adapter(adapter.pk, by="gate")
    waiting, first = set(Evaluation.objects.filter(state="waiting").values_list("pk", flat=True)), len(list_offered())
    assert len(waiting) == 2, "both sides are asked at once"
    for _ in range(ROUNDS):
        assert offering.find_ready() == []
        Task.objects.filter(state="queued").update(created_at=LONG_AGO)
        assert {pk for pk, _ in offering.find_ready()} == waiting
        take_in()
    assert (Task.objects.count(), list_offered()) == (ROUNDS * first, [])
    assert set(ItemTry.objects.values_list("outcome", "cause")) == {(None, "infrastructure")}
    gate_adapter(adapter.pk, by="gate")
    adapter.refresh_from_db()
    safe = Verdict.objects.get(question="safe")
    assert (adapter.state, adapter.waits_for, safe.outcome) == ("candidate", "", "inconclusive")
    assert "handed nothing in, though it was offered 3 times: nothing is proved" in safe.words


def test_a_try_that_can_never_be_graded_ends_its_evaluation_and_its_verdict_waits_no_longer(
    harness: Worker, store: Path, alice: User
) -> None:
    """As where its world is no longer installed when it is handed in."""
    hold_out(harness.project, LEAST_OWN)
    adapter = make_served(harness, 1, store, state=Adapter.State.CANDIDATE)
    gate_adapter(adapter.pk, by="gate")
    for task in list_offered():
        do(task, alice)
    Attempt.objects.update(created_at=LONG_AGO)
    Task.objects.update(environment="gone")
    Segment.objects.filter(kind="evaluate").update(run_after=LONG_AGO)
    for segment in Segment.objects.filter(kind="evaluate", state="open"):
        for _ in range(settings.TENTALIS["MAX_ATTEMPTS"]):
            run_link(lambda pk: offering.measure(pk, by="evals"), segment.pk, 0)
            Segment.objects.filter(pk=segment.pk).update(run_after=LONG_AGO)
    failed = Evaluation.objects.filter(state="failed", finished_at__isnull=False)
    assert failed.count() == Evaluation.objects.count() > 0
    assert Segment.objects.filter(kind="evaluate", state="dead").count() == failed.count()
    assert [flow.go_on_waiting() for _ in range(3)] == [0, 0, 0]
    assert not Segment.objects.filter(kind="evaluate", state="open").exists()
    assert Segment.objects.filter(kind="adopt", subject_id=adapter.pk, state="open").count() == 1
    gate_adapter(adapter.pk, by="gate")
    adapter.refresh_from_db()
    safe = Verdict.objects.get(question="safe")
    assert (adapter.waits_for, safe.outcome) == ("", "inconclusive")
    assert "gone" in safe.words


@pytest.mark.parametrize("adapter", ["another@v9", None])
def test_what_another_model_answered_says_nothing_of_the_candidate(
    harness: Worker, store: Path, alice: User, adapter: str | None
) -> None:
    hold_out(harness.project, LEAST_OWN)
    gate_adapter(make_served(harness, 1, store, state=Adapter.State.CANDIDATE).pk, by="gate")
    task = list_offered()[0]
    if adapter is None:
        flow.submit_own_attempt(task=task, steps=[], answer="0", by=alice)
    else:
        do(task, alice, adapter)
    take_in()
    row = ItemTry.objects.get()
    assert (row.outcome, row.cause) == (None, "infrastructure")
    assert ("answered by another@v9, not by" if adapter else "no call of this try came") in row.reason


@pytest.mark.parametrize("how", ["a person decides", "it is cancelled"])
def test_what_nobody_wants_any_more_is_taken_from_the_door(harness: Worker, store: Path, alice: User, how: str) -> None:
    hold_out(harness.project, LEAST_OWN)
    adapter = make_served(harness, 1, store, state=Adapter.State.CANDIDATE)
    gate_adapter(adapter.pk, by="gate")
    flow.go_on_waiting()
    open_tries = len(list_offered())
    assert open_tries > 0, "they are wanted"
    if how == "a person decides":
        Adapter.objects.filter(pk=adapter.pk).update(state=Adapter.State.RETIRED)
    else:
        Evaluation.objects.update(state=Evaluation.State.CANCELLED)
    flow.go_on_waiting()
    assert list_offered() == []
    assert Task.objects.filter(state=Task.State.CANCELLED).count() == open_tries
    assert not Evaluation.objects.filter(state=Evaluation.State.WAITING).exists()
