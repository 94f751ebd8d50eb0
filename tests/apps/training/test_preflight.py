"""The gates around a training: refused before anything is sent, told afterwards, and alarms on the way."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.models import Project
from apps.adapters.models import Adapter, Deployment
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.base.errors import ConflictError
from apps.feedback.submit import give_task_feedback
from apps.inference.models import Exchange
from apps.pipeline import flow
from apps.rollouts.contents import describe_taught
from apps.rollouts.models import Batch, PreferencePair
from apps.rollouts.rejudging import rejudge_rollouts
from apps.rollouts.selectors import why_nothing_trains
from apps.rollouts.services import build_rollouts, close_open_batch
from apps.tasks.models import Task
from apps.training import monitoring, preflight, results, retrying, schedule, services
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tentalis.core.contracts import Outcome
from tentalis.core.desk import make_tickets
from tentalis.core.learning.recipes import Recipe
from tests.apps.training.test_runs import make_result
from tests.factories import make_judged_task, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def store(settings: Settings, tmp_path: Path) -> Path:
    """An artifact store of the test's own, and no model server."""
    settings.ARTIFACTS = tmp_path
    settings.ENGINE_URL = "http://127.0.0.1:1"
    return tmp_path


@pytest.fixture
def batch(project: Project, worker: Worker) -> Batch:
    """Two tasks of two attempts each, closed."""
    for _ in range(2):
        build_rollouts([make_judged_task(project, worker).pk], by="ledger")
    return close_open_batch(worker, by="ledger")


def ask(batch: Batch, **recipe: Any) -> TrainingRun:
    run = services.queue_run(batch=batch, by="ledger", changes=recipe)
    preflight.ask_run(run.pk, by="gate")
    run.refresh_from_db()
    return run


def answers_of(run: TrainingRun) -> dict[str, Any]:
    return {one["gate"]: one["passed"] for one in run.gates}


def test_an_honest_batch_is_asked_and_goes_on(batch: Batch) -> None:
    run = ask(batch)
    assert run.state == TrainingRun.State.QUEUED
    assert answers_of(run) == {
        "G1": True,
        "G2": None,
        "G3": True,
        "G6": True,
        "G8": True,
        "G10": True,
        "G11": True,
        "G12": True,
        "G13": True,
    }


def test_attempts_that_another_base_model_answered_are_left_out_and_a_batch_of_them_alone_is_refused(
    batch: Batch, worker: Worker
) -> None:
    since = timezone.now()
    Worker.objects.filter(pk=worker.pk).update(base_since=since)
    Project.objects.update(gate_policy={"least_solved": 2})
    first = Task.objects.earliest("pk")
    Exchange.objects.exclude(attempt__task=first).update(created_at=since)
    run = ask(batch, algorithm="kto")
    base = next(one for one in run.gates if one["gate"] == "G11")
    assert base["passed"]
    assert base["words"].endswith("left out are 2 of 4 attempts, which another base model answered")
    Exchange.objects.update(created_at=since - timedelta(seconds=1))
    preflight.ask_run(run.pk, by="gate")
    run.refresh_from_db()
    assert run.state == TrainingRun.State.REFUSED
    assert run.finished_at is not None
    assert "left out are 4 of 4 attempts, which another base model answered" in run.failure


def test_imitation_of_too_few_solved_tasks_is_refused_in_words(batch: Batch) -> None:
    run = ask(batch, algorithm="reward_weighted_sft")
    assert run.state == TrainingRun.State.REFUSED
    assert run.failure == "G1: 2 distinct tasks are solved, reward_weighted_sft wants 100"
    assert AuditEntry.objects.get(kind=Kind.RUN_REFUSED).payload["reason"] == run.failure


def test_the_projects_policy_says_how_many_are_enough(project: Project, batch: Batch) -> None:
    Project.objects.filter(pk=project.pk).update(gate_policy={"least_solved": 2})
    assert ask(batch, algorithm="reward_weighted_sft").state == TrainingRun.State.QUEUED


def test_held_out_tasks_in_a_batch_are_refused(batch: Batch) -> None:
    (ticket,) = make_tickets(1, 1, held_out=True)
    Task.objects.filter(pk=Task.objects.earliest("pk").pk).update(environment="desk", prompt=ticket.text)
    run = ask(batch)
    assert run.state == TrainingRun.State.REFUSED
    assert "G8: 2 of 4 attempts are on held-out tasks" in run.failure


def test_a_refused_run_may_be_queued_again_and_nothing_of_it_is_sent(batch: Batch, worker: Worker) -> None:
    run = ask(batch, algorithm="reward_weighted_sft")
    services.dispatch_run(run.pk, by="control")
    run.refresh_from_db()
    assert (run.state, run.attempt) == ("refused", 0)
    retrying.retry_run(run=run, by="alice")
    assert run.state == TrainingRun.State.QUEUED


def send_home(run: TrainingRun, store: Path, **changes: Any) -> Adapter:
    TrainingRun.objects.filter(pk=run.pk).update(state="running", attempt=1, heartbeat_at=Now())
    run.refresh_from_db()
    flow.handle_training_result(make_result(run, store, **changes), by="control")
    results.ask_measured(Adapter.objects.get(run_id=run.pk).pk, by="gate")
    run.refresh_from_db()
    return Adapter.objects.get(run_id=run.pk)


def test_what_it_was_taught_with_goes_with_the_adapter(batch: Batch, store: Path) -> None:
    run = ask(batch)
    adapter = send_home(run, store, metrics=[{"loss": 0.1, "grad_norm": 1.0, "mean_length_tokens": 9.0}])
    assert (adapter.taught["rollouts"], adapter.taught["audited"], adapter.taught["held_out"]) == (4, 4, 0)
    assert (adapter.state, answers_of(run)["G5"], answers_of(run)["G7"]) == ("candidate", None, True)


@pytest.mark.parametrize(
    ("old", "alarms"), [(5, []), (6, [("staleness", "6 of 20 sequences were too old")])], ids=["a quarter", "more"]
)
def test_sequences_that_were_too_old_are_counted_among_sequences(
    batch: Batch, store: Path, old: int, alarms: list[tuple[str, str]]
) -> None:
    run = ask(batch)  # of four attempts, of five calls each
    send_home(run, store, summary={"rollouts": 20.0, "refused_stale": float(old)})
    run.refresh_from_db()
    assert [(one["detector"], one["words"]) for one in run.alarms] == alarms


@pytest.mark.parametrize("backend", ["standalone", "tinker", "openrlhf"])
def test_how_far_its_numbers_may_have_moved_is_known_of_the_own_optimiser_alone(
    batch: Batch, store: Path, backend: str
) -> None:
    run = ask(batch)
    TrainingRun.objects.filter(pk=run.pk).update(backend=backend)
    reach = send_home(run, store).taught["reach"]
    assert reach == (Recipe.from_json(run.recipe).reach if backend == "standalone" else None)


SHORTER = [{"mean_length_tokens": 20.0}, {"mean_length_tokens": 4.0}]


@pytest.mark.parametrize(
    ("backend", "metrics", "words"),
    [
        ("standalone", [{"loss": 0.1, "grad_norm": 5_000.0}], "G7: loss and gradients are finite, the largest norm is"),
        ("openrlhf", SHORTER, "G5: answers of 4.0 tokens where 20.0 were"),
    ],
)
def test_a_training_that_went_wrong_leaves_a_refused_adapter(
    batch: Batch, store: Path, backend: str, metrics: list[dict[str, float]], words: str
) -> None:
    run = ask(batch)
    TrainingRun.objects.filter(pk=run.pk).update(backend=backend)
    adapter = send_home(run, store, metrics=metrics)
    assert (run.state, adapter.state) == ("succeeded", "refused")
    assert words in adapter.verdicts.get().words


@pytest.mark.parametrize("backend", ["standalone", "tinker"])
def test_how_long_the_attempts_are_that_an_update_was_dealt_refuses_nothing(
    batch: Batch, store: Path, backend: str
) -> None:
    """All of them were sampled before the training."""
    run = ask(batch)
    TrainingRun.objects.filter(pk=run.pk).update(backend=backend)
    adapter = send_home(run, store, metrics=SHORTER)
    (answer,) = (one for one in run.gates if one["gate"] == "G5")
    assert (adapter.state, answer["passed"]) == ("candidate", None)
    assert answer["words"].startswith("not asked: ")


@pytest.mark.parametrize(("backend", "alarms"), [("standalone", []), ("tinker", []), ("openrlhf", ["length_drift"])])
def test_a_run_that_samples_nothing_alarms_of_no_length(batch: Batch, backend: str, alarms: list[str]) -> None:
    run = ask(batch)
    TrainingRun.objects.filter(pk=run.pk).update(state="running", attempt=1, backend=backend)
    for update, metrics in enumerate(SHORTER, start=1):
        monitoring.note_heartbeat(run.pk, 1, {"update": update, **metrics}, update)
    run.refresh_from_db()
    assert [one["detector"] for one in run.alarms] == alarms


UNFIT = {
    "outcome": Outcome.REFUSED,
    "error_type": "UnfitAdapterError",
    "error_message": "not published: 40.0% of the held-out pairs (5 examples) are ordered right",
    "sha256": "",
    "adapter_uri": "",
    "metrics": [{"loss": 0.4, "grad_norm": 1.0}],
    "summary": {"train_loss": 0.1, "val_loss": 0.9, "length_before_tokens": 20.0, "length_after_tokens": 21.0},
}


def test_what_the_trainer_would_not_publish_is_refused_with_its_numbers(batch: Batch, store: Path) -> None:
    run = ask(batch)
    TrainingRun.objects.filter(pk=run.pk).update(state="running", attempt=1, heartbeat_at=Now())
    run.refresh_from_db()
    flow.handle_training_result(make_result(run, store, **UNFIT), by="control")
    run.refresh_from_db()
    assert (run.state, run.failure) == ("refused", UNFIT["error_message"])
    assert run.metrics == UNFIT["metrics"]
    assert run.summary.items() >= UNFIT["summary"].items()  # type: ignore[attr-defined]
    answers = {one["gate"]: one["words"] for one in run.gates if one["gate"] in {"G4", "G5"}}
    assert answers == {
        "G4": "validation loss 0.9 on 0.1 in training: 9.0 times, 5 are allowed",
        "G5": "answers of 21.0 tokens where 20.0 were: 105%, 50% are wanted",
    }
    [finding] = [one for one in why_nothing_trains(run.project) if one.kind == "runs"]
    assert (finding.words.partition(": ")[0], finding.count) == (f"{batch} is full and its run was refused", 4)


def test_a_run_that_breaks_keeps_what_it_told_while_it_trained(batch: Batch, store: Path) -> None:
    run = ask(batch)
    TrainingRun.objects.filter(pk=run.pk).update(state="running", attempt=1, metrics=[{"loss": 0.4}])
    run.refresh_from_db()
    broken = {"outcome": Outcome.FAILED, "error_type": "DivergedError", "error_message": "loss is nan", "metrics": []}
    flow.handle_training_result(make_result(run, store, **broken), by="control")
    run.refresh_from_db()
    assert (run.state, run.metrics) == ("failed", [{"loss": 0.4}])


@pytest.fixture
def pairs(project: Project, worker: Worker) -> Batch:
    """Pairs of two tasks, one a person's choice and one an edited answer, in a batch."""
    for said in ({"preferred_attempt": 0}, {"preferred_attempt": 1, "edited_answer": "three"}):
        task = make_judged_task(project, worker)
        for attempt in task.attempts.all():
            attempt.text = f"answer {attempt.index}"
            attempt.save()
        give_task_feedback(task=task, by=make_user("alice"), **said)
        build_rollouts([task.pk], by="ledger")
    return close_open_batch(worker, by="ledger", kind="pairs")


def test_every_gate_answers_for_pairs_or_says_why_it_was_not_asked(project: Project, pairs: Batch) -> None:
    Project.objects.filter(pk=project.pk).update(gate_policy={"least_solved": 2})
    run = ask(pairs, algorithm="dpo")
    words = {one["gate"]: one["words"] for one in run.gates}
    assert (run.state, answers_of(run)) == (
        "queued",
        {
            "G1": True,
            "G2": None,
            "G3": True,
            "G6": True,
            "G8": True,
            "G10": True,
            "G11": True,
            "G12": True,
            "G13": True,
        },
    )
    assert words["G1"] == "2 distinct tasks are solved, dpo wants 2"
    assert words["G2"].startswith("not asked: ")
    assert words["G8"] == "none of 6 sides of pairs is on a task that is measured on"


def test_pairs_of_held_out_tasks_are_refused(pairs: Batch) -> None:
    (ticket,) = make_tickets(1, 1, held_out=True)
    Task.objects.filter(pk=Task.objects.earliest("pk").pk).update(environment="desk", prompt=ticket.text)
    assert "G8: 2 of 6 sides of pairs are on held-out tasks" in ask(pairs, algorithm="dpo").failure


def test_a_pair_of_a_task_that_had_its_turn_stays_out_and_says_so(pairs: Batch, worker: Worker) -> None:
    first = Task.objects.earliest("pk")
    give_task_feedback(task=first, by=make_user("alice"), edited_answer="two", preferred_attempt=0)
    with transaction.atomic():
        rejudge_rollouts(first, by="alice")
    late = PreferencePair.objects.get(task=first, source="edit")
    assert late.batch is None
    with pytest.raises(ConflictError, match=f"its task had its turn: batch {pairs.number} was learnt from"):
        close_open_batch(worker, by="ledger", kind="pairs")


def test_people_who_prefer_what_is_wrong_are_found_out(pairs: Batch) -> None:
    """Of the first task the wrong attempt was preferred, of the second the right one; nobody verified the edit."""
    taught = describe_taught(pairs)
    assert (taught.rollouts, taught.audited, taught.reward, taught.outcome) == (6, 4, 0.5, 0.5)


def test_an_update_that_alarms_is_told_once(batch: Batch) -> None:
    run = ask(batch)
    TrainingRun.objects.filter(pk=run.pk).update(state="running", attempt=1)
    for update in (1, 2, 3):
        metrics = {"update": update, "entropy": 0.1, "max_ratio": 50.0 if update > 1 else 1.0}
        monitoring.note_heartbeat(run.pk, 1, metrics, update)
    run.refresh_from_db()
    assert [(one["detector"], one["update"]) for one in run.alarms] == [("max_ratio", 2)]
    entry = AuditEntry.objects.get(kind=Kind.RUN_ALARMED)
    assert entry.payload == {"detector": "max_ratio", "words": "a token became 50 times as likely", "update": 2}


def test_while_what_serves_is_not_what_should_nothing_is_sent(batch: Batch, worker: Worker) -> None:
    Deployment.objects.create(worker=worker, trouble="the model server does not know echo@v1")
    run = ask(batch)
    assert not schedule.admit(run)
    run.refresh_from_db()
    assert (run.state, run.waiting_reason) == (
        "queued",
        "what serves is not what should: the model server does not know echo@v1",
    )
    Deployment.objects.update(trouble="")
    assert schedule.admit(run)
