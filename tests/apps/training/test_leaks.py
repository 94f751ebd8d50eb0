"""What is measured on is not learnt from, wherever it comes in: asked before a training, and again before the gate."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from apps.accounts.models import Project
from apps.adapters.models import Adapter, Verdict
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.evals.panels import Panel, choose_panel, draw_fresh
from apps.feedback.models import Feedback, Hint
from apps.gate.sides import list_measured
from apps.inference.models import Exchange
from apps.rollouts.contents import describe_taught
from apps.rollouts.models import Batch, Demonstration, PreferencePair, Rollout, TrainingUse
from apps.tasks.models import FurtherExchange, Task
from apps.training import preflight, results, services
from apps.training.contamination import find_leaks
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tentalis.core.desk import make_tickets
from tentalis.core.learning.gate import GatePolicy
from tests.factories import make_attempt, make_measured, make_project, make_task, make_worker

LEARNT = [ticket.text for ticket in make_tickets(77, 4, held_out=False)]
Plant = Callable[[Batch, str], Task]


@pytest.fixture
def project(db: None, settings: Settings, tmp_path: Path) -> Project:
    settings.ARTIFACTS = tmp_path
    settings.ENGINE_URL = "http://127.0.0.1:1"
    policy = {"panel_size": 40, "fresh_size": 20, "skills_size": 10, "least_solved": 0}
    return make_project(gate_policy=policy)


@pytest.fixture
def worker(project: Project) -> Worker:
    return make_worker(project, "desk", "desk")


@pytest.fixture
def batch(worker: Worker) -> Batch:
    """A full one of four honest tickets of two attempts each."""
    made: Batch = Batch.objects.create(
        project=worker.project, worker=worker, number=1, target_tasks=4, state="closed", task_count=4, rollout_count=8
    )
    for text in LEARNT:
        plant_task(made, text, environment="desk")
    return made


@pytest.fixture
def on_panel(worker: Worker) -> str:
    """A ticket that a first adapter would be measured on."""
    return sorted(list_measured(choose(worker), GatePolicy.from_json(worker.project.gate_policy)))[0]


def choose(worker: Worker, version: int = 1) -> Panel:
    panel = choose_panel(worker, version=version, policy=GatePolicy.from_json(worker.project.gate_policy))
    assert panel is not None
    return panel


# --- ways in ---------------------------------------------------------------------------------------------------------


def plant_task(batch: Batch, text: str, **values: str) -> Task:
    """A task of two attempts that are learnt from as rollouts."""
    task = make_task(batch.project, batch.worker, **{"environment": "chat", "prompt": text} | values)
    for index in (0, 1):
        rollout = Rollout.objects.create(
            project=batch.project, worker=batch.worker, task=task, attempt=make_attempt(task, index), is_usable=True,
            reward=float(index),
        )  # fmt: skip
        TrainingUse.objects.create(rollout=rollout, batch=batch)
    return task


def plant_spelt_otherwise(batch: Batch, text: str) -> Task:
    return plant_task(batch, f"  {text.upper().replace(' ', chr(10))}")


def plant_hint(batch: Batch, text: str) -> Task:
    task = Task.objects.filter(rollouts__training_use__batch=batch).latest("pk")
    said = Feedback.objects.create(project=batch.project, task=task, source="human", author="user:alice")
    hint = Hint.objects.create(task=task, feedback=said, text=f"Of “{text}” the sum is 12.", source="human")
    Rollout.objects.filter(task=task).update(hint=hint)
    return task


def plant_talk(batch: Batch, text: str) -> Task:
    """What a gateway heard: the task's own words are others, for personal ones were masked."""
    task = plant_task(batch, "[NAME] asks something.")
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": f"Ann here. {text}"}]
    Exchange.objects.filter(pk__in=task.attempts.values("exchange")).update(messages=messages)
    return task


def plant_later_call(batch: Batch, text: str) -> Task:
    """A tool told it, in a later call of an attempt, in parts."""
    task = plant_task(batch, "Look it up.")
    for attempt in task.attempts.all():
        told = [{"role": "tool", "content": [{"type": "text", "text": text}]}]
        exchange = Exchange.objects.create(project=task.project, model="desk", messages=told)
        FurtherExchange.objects.create(exchange=exchange, attempt=attempt, place=1)
    return task


def plant_answer(batch: Batch, text: str) -> Task:
    task = plant_task(batch, "Which ticket is hard?")
    Exchange.objects.filter(pk__in=task.attempts.values("exchange")).update(text=f"This one: {text}")
    return task


def plant_pair(batch: Batch, text: str) -> Task:
    """An edited answer."""
    task = Task.objects.filter(rollouts__training_use__batch=batch).latest("pk")
    PreferencePair.objects.create(
        project=batch.project, worker=batch.worker, task=task, source="edit", batch=batch, text=f"{text} Ship it.",
        rejected=task.attempts.latest("pk"), digest="1",
    )  # fmt: skip
    Batch.objects.filter(pk=batch.pk).update(kind="pairs")
    return task


def plant_guided(batch: Batch, text: str) -> Task:
    """Work that a person guided: its conversation is on the row, and no model sampled it."""
    task = Task.objects.filter(rollouts__training_use__batch=batch).latest("pk")
    Demonstration.objects.create(
        project=batch.project, worker=batch.worker, task=task, source="guided", batch=batch, text="So it is done.",
        messages=[{"role": "user", "content": text}], digest="1",
    )  # fmt: skip
    Batch.objects.filter(pk=batch.pk).update(kind="demonstrations")
    return task


WAYS = [
    (plant_task, {}, "2 of 10 attempts are on held-out tasks, 2 hold one that is measured on"),
    (plant_spelt_otherwise, {}, "0 of 10 attempts are on held-out tasks, 2 hold one that is measured on"),
    (plant_hint, {}, "0 of 8 attempts are on held-out tasks, 2 hold one that is measured on"),
    (plant_talk, {}, "0 of 10 attempts are on held-out tasks, 2 hold one that is measured on"),
    (plant_later_call, {}, "2 of 10 attempts are on held-out tasks, 2 hold one that is measured on"),
    (plant_answer, {}, "0 of 10 attempts are on held-out tasks, 2 hold one that is measured on"),
    (plant_pair, {"algorithm": "dpo"}, "0 of 2 sides of pairs are on held-out tasks, 2 hold one that is measured on"),
    (plant_guided, {"algorithm": "sft"}, "1 of 1 demonstrations are on held-out tasks, 1 hold one that is measured on"),
]


@pytest.mark.parametrize(("plant", "recipe", "words"), WAYS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_ticket_of_the_panel_is_found_whatever_way_it_came(
    batch: Batch, on_panel: str, plant: Plant, recipe: dict[str, str], words: str
) -> None:
    task = plant(batch, on_panel)
    batch.refresh_from_db()
    run = services.queue_run(batch=batch, by="ledger", changes=recipe)
    preflight.ask_run(run.pk, by="gate")
    run.refresh_from_db()
    assert (run.state, run.failure) == ("refused", f"G8: {words} (task {task.pk})")
    assert AuditEntry.objects.get(kind=Kind.RUN_REFUSED).payload["reason"] == run.failure


def test_honest_tickets_are_no_leak(batch: Batch) -> None:
    run = services.queue_run(batch=batch, by="ledger")
    preflight.ask_run(run.pk, by="gate")
    run.refresh_from_db()
    assert run.state == "queued"
    assert [one["words"] for one in run.gates if one["gate"] == "G8"] == [
        "none of 8 attempts is on a task that is measured on"
    ]


def test_what_was_said_long_before_is_read_and_not_learnt(batch: Batch, on_panel: str) -> None:
    """A session goes on behind a ticket of the panel: only what answers its last words is learnt."""
    earlier = [{"role": "user", "content": on_panel}, {"role": "assistant", "content": "12 EUR"}]
    Exchange.objects.update(messages=[*earlier, {"role": "user", "content": "Thank you. And now?"}])
    assert find_leaks([batch], [on_panel], world=choose(batch.worker).world) == (8, 0, 0, [])


def look_through(batch: Batch) -> tuple[int, int]:
    """How many answers were looked at for what is measured on, and for what is rewarded."""
    return find_leaks([batch], (), world=None).answers, describe_taught(batch).rollouts


def test_the_number_of_queries_does_not_grow(batch: Batch) -> None:
    with CaptureQueriesContext(connection) as few:
        look_through(batch)
    for text in LEARNT:
        plant_task(batch, text)
    with CaptureQueriesContext(connection) as many:
        assert look_through(batch) == (16, 16)
    assert len(many) == len(few)


# --- before the gate -------------------------------------------------------------------------------------------------


@pytest.fixture
def adapter(worker: Worker, batch: Batch) -> Adapter:
    """A candidate that a run made of the batch."""
    run = TrainingRun.objects.create(
        project=worker.project, worker=worker, batch=batch, recipe={}, recipe_hash="0" * 64, state="succeeded",
        gates=[{"gate": "G8", "passed": True, "words": "", "found": 0, "wanted": 0}],
    )  # fmt: skip
    return make_candidate(worker, run, version=1, parent=None)


def make_candidate(worker: Worker, run: TrainingRun, *, version: int, parent: Adapter | None) -> Adapter:
    made: Adapter = Adapter.objects.create(
        project=worker.project, worker=worker, name=f"shop.desk@v{version}-0", version=version, line_version=version,
        run_id=run.pk, uri="file:///x", sha256=f"{version}a" * 32, manifest={}, parent=parent,
    )  # fmt: skip
    return made


def draw(adapter: Adapter) -> str:
    """A ticket that is drawn for this candidate alone."""
    policy = GatePolicy.from_json(adapter.project.gate_policy)
    panel = choose(adapter.worker, adapter.line_version)
    fresh = {one.prompt for one in draw_fresh(panel, key=adapter.sha256, policy=policy).items}
    return sorted(fresh - list_measured(panel, policy))[0]


def test_a_candidate_that_learnt_what_is_drawn_for_it_is_refused_unmeasured(batch: Batch, adapter: Adapter) -> None:
    task = plant_talk(batch, draw(adapter))
    results.ask_measured(adapter.pk, by="gate")
    adapter.refresh_from_db()
    words = "0 of 10 answers that it learnt from are on held-out tasks, 2 hold one that is measured on"
    assert adapter.state == Adapter.State.REFUSED
    assert Verdict.objects.get().words == f"refused: G8: {words} (task {task.pk})"
    [answer] = TrainingRun.objects.get().gates
    assert (answer["gate"], answer["passed"], answer["found"]) == ("G8", False, 2)


@pytest.fixture
def child(worker: Worker, adapter: Adapter) -> Adapter:
    """A candidate that continues the first one, by a run that learnt from one honest task."""
    own = Batch.objects.create(project=worker.project, worker=worker, number=2, target_tasks=1, state="closed")
    plant_task(own, "An honest one.")
    run = TrainingRun.objects.create(
        project=worker.project, worker=worker, batch=own, recipe={}, recipe_hash="0" * 64, state="succeeded"
    )
    return make_candidate(worker, run, version=2, parent=adapter)


def test_what_it_continues_counts_as_what_it_learnt(batch: Batch, child: Adapter) -> None:
    results.ask_measured(child.pk, by="gate")
    child.refresh_from_db()
    assert child.state == Adapter.State.CANDIDATE
    plant_talk(batch, draw(child))
    results.ask_measured(child.pk, by="gate")
    child.refresh_from_db()
    assert child.state == Adapter.State.REFUSED


def test_a_line_is_asked_once_for_each_panel(batch: Batch, child: Adapter) -> None:
    """Its parent was measured on the same panel: what that learnt was asked then."""
    panel = choose(child.worker, child.line_version)
    make_measured(child.worker, child.parent, [1.0], items=panel.name)
    plant_talk(batch, draw(child))
    results.ask_measured(child.pk, by="gate")
    child.refresh_from_db()
    assert child.state == Adapter.State.CANDIDATE
    own = TrainingRun.objects.get(pk=child.run_id or 0).batch
    assert own is not None
    plant_talk(own, draw(child))
    results.ask_measured(child.pk, by="gate")
    child.refresh_from_db()
    assert child.state == Adapter.State.REFUSED


def test_an_honest_candidate_goes_on_to_the_gate_and_one_that_was_judged_is_left_alone(
    batch: Batch, adapter: Adapter
) -> None:
    results.ask_measured(adapter.pk, by="gate")
    adapter.refresh_from_db()
    assert (adapter.state, Verdict.objects.count()) == ("candidate", 0)
    plant_talk(batch, draw(adapter))
    Adapter.objects.update(state="verified")
    results.ask_measured(adapter.pk, by="gate")
    adapter.refresh_from_db()
    assert adapter.state == "verified"


def test_where_nothing_is_measured_nothing_leaks(project: Project, batch: Batch, adapter: Adapter) -> None:
    plant_talk(batch, draw(adapter))
    Worker.objects.update(kind="echo")
    results.ask_measured(adapter.pk, by="gate")
    adapter.refresh_from_db()
    assert adapter.state == "candidate"
