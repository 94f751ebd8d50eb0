"""Runs between two who decide: what was asked of one is done, whoever sends, pauses, cancels or loses it meanwhile."""

import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from pytest_django import Settings

from apps.accounts.models import User
from apps.adapters.models import Adapter
from apps.erasure import unlearn_adapters
from apps.outbox.models import Segment
from apps.pipeline import flow, sweep, trainings
from apps.training import monitoring, retrying, schedule, services
from apps.training.models import GpuLease, TrainingRun
from apps.workers.models import Worker
from tentalis.core.contracts import Outcome
from tests.apps.adapters.test_deployment import make_adapter
from tests.apps.training.boxes import leave_result, send_out
from tests.apps.training.test_runs import fall_silent, make_result, queue_another
from tests.apps.training.test_runs import run as run
from tests.apps.training.test_runs import store as store
from tests.apps.training.test_schedule import queue
from tests.chaos.interleave import Side, at_once, until_waiting
from tests.factories import make_project, make_worker

pytestmark = pytest.mark.django_db


def fetch(run: TrainingRun) -> TrainingRun:
    return TrainingRun.objects.get(pk=run.pk)


def send(run: TrainingRun, store: Path, *, attempt: int = 1, **changes: Any) -> Path:
    """As dispatch does it; returns the attempt's directory, which the box has not made yet."""
    output = store / "runs" / str(run.pk) / str(attempt)
    spec = {"output_uri": output.as_uri()}
    row = TrainingRun.objects.filter(pk=run.pk)
    row.update(state="running", attempt=attempt, spec=spec, heartbeat_at=Now(), started_at=Now(), **changes)
    return output


def measure(worker: Worker) -> float:
    """Seconds of training that its project used."""
    return schedule.measure_use([worker.project_id])[worker.project_id]


@pytest.mark.parametrize(("what", "file"), [(trainings.cancel_run, "cancel"), (trainings.pause_run, "pause")])
def test_who_stops_a_run_that_was_sent_meanwhile_stops_the_box(
    worker: Worker, store: Path, alice: User, what: Any, file: str
) -> None:
    """A row that says it is over while the box trains on would burn a GPU, and a cluster's for days."""
    shown = queue(worker)
    output = send(shown, store)
    what(run=shown, by=alice)
    assert (output / file).is_file()
    assert fetch(shown).state == "running"


def test_who_cancels_cancels_the_attempt_that_trains_now(worker: Worker, store: Path, alice: User) -> None:
    shown = queue(worker)
    send(shown, store)
    shown.refresh_from_db()
    second = send(shown, store, attempt=2)
    trainings.cancel_run(run=shown, by=alice)
    assert (second / "cancel").is_file()


def test_a_cancelled_run_whose_box_died_is_not_sent_again(run: TrainingRun, alice: User) -> None:
    trainings.cancel_run(run=run, by=alice)
    fall_silent()
    sweep.sweep_runs()
    assert fetch(run).state == "cancelled"
    assert "went silent before it said so" in fetch(run).failure
    assert not Segment.objects.filter(kind="train", state="open").exists()


def test_a_paused_run_whose_box_died_is_paused(run: TrainingRun, alice: User) -> None:
    trainings.pause_run(run=run, by=alice)
    fall_silent()
    sweep.sweep_runs()
    assert (fetch(run).state, fetch(run).waiting_reason) == ("paused", "paused by user:alice")


def test_what_is_given_up_is_told_to_stop(run: TrainingRun, store: Path) -> None:
    """The box may live, and only its broker be away: two attempts would share it."""
    fall_silent()
    sweep.sweep_runs()
    assert fetch(run).state == "queued"
    assert (store / "runs" / "1" / "cancel").is_file()


def test_a_result_that_comes_after_the_cancel_is_not_adopted(run: TrainingRun, store: Path, alice: User) -> None:
    trainings.cancel_run(run=run, by=alice)
    flow.handle_training_result(make_result(run, store), by="control")
    assert (fetch(run).state, Adapter.objects.count()) == ("cancelled", 0)


def test_the_schedule_does_not_take_a_persons_pause_for_its_own(run: TrainingRun, store: Path, alice: User) -> None:
    trainings.pause_run(run=run, by=alice)
    services.pause_run(run, why=schedule.OUTSIDE_HOURS, by="schedule")
    asked = (store / "runs" / "1" / "pause").read_text()
    flow.handle_training_result(
        make_result(run, store, outcome=Outcome.PAUSED, error_type="PausedError", error_message=asked), by="control"
    )
    sweep.sweep_runs()
    assert fetch(run).state == "paused", "when hours begin nobody but a person lets it go on"


def test_what_was_seen_as_silent_and_was_heard_again_is_left_alone(run: TrainingRun) -> None:
    fall_silent()
    (seen,) = retrying.find_silent_runs()
    monitoring.note_heartbeat(run.pk, 1, {}, 1)
    assert flow.wake_silent_run(seen) == "heard again"
    assert (fetch(run).state, fetch(run).attempt) == ("running", 1)


def test_what_lost_attempts_took_of_the_box_is_counted(run: TrainingRun) -> None:
    TrainingRun.objects.update(started_at=Now() - schedule.DAY, heartbeat_at=Now() - schedule.DAY + timedelta(hours=2))
    sweep.sweep_runs()
    assert fetch(run).cost["gpu_s"] == pytest.approx(7200, abs=1)


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": Outcome.FAILED, "error_type": "TrainingError", "error_message": "read \0 at the end"},
        {"metrics": [{"loss": float("nan")}]},
        {"summary": {"said": "\0"}},
    ],
    ids=["NUL in the reason", "a loss that is no number", "NUL in the summary"],
)
def test_a_result_that_cannot_be_stored_ends_its_run_with_the_reason(
    run: TrainingRun, store: Path, changes: dict[str, Any]
) -> None:
    flow.handle_training_result(json.loads(json.dumps(make_result(run, store, **changes))), by="control")
    assert fetch(run).state == "failed"
    assert "its result cannot be used" in fetch(run).failure


def test_a_heartbeat_whose_numbers_cannot_be_stored_is_a_sign_of_life_all_the_same(run: TrainingRun) -> None:
    fall_silent()
    monitoring.note_heartbeat(run.pk, 1, {"loss": float("inf")}, 1)
    assert retrying.find_silent_runs() == []


def test_another_runs_result_in_its_directory_is_none(run: TrainingRun, store: Path) -> None:
    output = store / "runs" / "1"
    leave_result(send_out(run, output), make_result(run, store, attempt=7), output)
    fall_silent()
    sweep.sweep_runs()
    assert fetch(run).state == "queued", "else it is silent for ever"


def test_a_run_that_cannot_be_taken_up_keeps_nobody_else_from_it(run: TrainingRun, store: Path) -> None:
    (store / "runs" / "1" / "cancel").mkdir()
    other = queue(make_worker(make_project(slug="other")))
    send(other, store)
    fall_silent()
    sweep.sweep_runs()
    assert {fetch(one).state for one in (run, other)} == {"queued"}


def test_a_run_that_went_on_after_a_pause_uses_time_and_gives_none_back(worker: Worker, store: Path) -> None:
    run = queue(worker)
    send(run, store)
    hours = timedelta(hours=1)
    TrainingRun.objects.filter(pk=run.pk).update(
        state="paused", finished_at=Now() - 5 * hours, started_at=Now() - 6 * hours
    )
    services.resume_run(fetch(run), by="user:alice")
    assert measure(worker) == pytest.approx(3600, abs=5)
    services.dispatch_run(run.pk, by="control")
    TrainingRun.objects.filter(pk=run.pk).update(started_at=Now() - hours)
    other = queue(worker, number=2)
    TrainingRun.objects.filter(pk=other.pk).update(
        state="succeeded", started_at=Now() - 3 * hours, finished_at=Now() - 2 * hours
    )
    assert measure(worker) == pytest.approx(3 * 3600, abs=5)


def test_an_attempt_that_fell_silent_used_the_box_until_its_last_sign_of_life(run: TrainingRun) -> None:
    hours = timedelta(hours=1)
    TrainingRun.objects.update(started_at=Now() - 3 * hours, heartbeat_at=Now() - 2 * hours)
    sweep.sweep_runs()
    assert fetch(run).state == "queued"
    assert measure(run.worker) == pytest.approx(3600, abs=5)


def test_attempts_count_as_far_as_they_reach_into_the_last_day_and_are_forgotten_behind_it(run: TrainingRun) -> None:
    hours = timedelta(hours=1)
    for began, ended in ((60, 40), (30, 20), (19, 18)):
        TrainingRun.objects.update(state="failed", started_at=Now() - began * hours, finished_at=Now() - ended * hours)
        retrying.retry_run(run=fetch(run), by="user:alice")
    assert len(fetch(run).past_attempts) == 2
    assert measure(run.worker) == pytest.approx(5 * 3600, abs=5)


def test_a_run_that_cannot_be_sent_again_used_no_time_while_it_waited(run: TrainingRun) -> None:
    hours = timedelta(hours=1)
    TrainingRun.objects.update(state="failed", started_at=Now() - 6 * hours, finished_at=Now() - 5 * hours)
    retrying.retry_run(run=fetch(run), by="user:alice")
    services.fail_run(run.pk, link="training.dispatch", reason="the disk is full", by="sweep")
    assert measure(run.worker) == pytest.approx(3600, abs=5)


# --- real transactions ----------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_result_that_comes_before_its_run_was_written_down_knows_its_parent(
    run: TrainingRun, worker: Worker, store: Path
) -> None:
    """The spec is sent in the transaction that writes the run: a box may be faster than the commit."""
    parent = make_adapter(worker, 1, Adapter.State.DEPLOYED)
    TrainingRun.objects.update(state="queued", attempt=0)
    result = make_result(run, store)
    with transaction.atomic():
        TrainingRun.objects.update(state="running", attempt=1, parent=parent)
        home = Side(lambda: flow.handle_training_result(result, by="control"))
        until_waiting(1)
    home.end()
    assert Adapter.objects.get(run_id=run.pk).parent == parent


def forget_who_taught(run: TrainingRun, alice: User) -> None:
    with transaction.atomic():
        unlearn_adapters.rebuild(project=run.project, forgetting=1, batches=[run.batch_id or 0], by=alice.handle)


def end_their_line(run: TrainingRun, alice: User) -> None:
    with transaction.atomic():
        unlearn_adapters.end_line(project=run.project, end_user="", stand_in="nobody", by=alice.handle)


def cancel(run: TrainingRun, alice: User) -> None:
    trainings.cancel_run(run=run, by=alice)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("stop", [cancel, forget_who_taught, end_their_line])
def test_who_stops_a_run_while_it_is_being_sent_meets_no_deadlock(
    worker: Worker, store: Path, alice: User, stop: Callable[[TrainingRun, User], None]
) -> None:
    run = queue(worker)
    flow.train_next(worker.pk)
    segment = Segment.objects.get(kind="train", subject_id=run.pk)

    def send_it() -> None:
        with transaction.atomic():  # as `final_write` has it: the segment ends, then the run moves
            Segment.objects.filter(pk=segment.pk, state="open").update(position=F("position") + 1)
            TrainingRun.objects.filter(pk=run.pk, state="queued").update(
                state="running", spec={"output_uri": store.as_uri()}
            )

    with transaction.atomic():
        TrainingRun.objects.select_for_update().get(pk=run.pk)
        cancelling = Side(lambda: stop(fetch(run), alice))
        until_waiting(1)
        sending = Side(send_it)
        until_waiting(2)
    cancelling.end()
    sending.end()
    assert fetch(run).state == "cancelled"


@pytest.mark.django_db(transaction=True)
def test_one_place_is_given_to_one_run_however_many_ask_at_once(settings: Settings, tmp_path: Path) -> None:
    settings.ARTIFACTS = tmp_path
    runs = [queue(make_worker(make_project(slug=f"p{number}"))) for number in range(6)]

    for _ in range(40):
        granted = at_once([partial(schedule.take_place, run) for run in runs])
        assert sum(one is True for one in granted) == 1, granted
        GpuLease.objects.update(run=None, expires_at=None)


@pytest.mark.django_db(transaction=True)
def test_however_often_a_result_comes_at_once_it_is_taken_home_once(run: TrainingRun, store: Path) -> None:
    result = make_result(run, store)
    found = at_once([lambda: flow.handle_training_result(result, by="control")] * 6)
    assert found == [None] * 6
    assert Adapter.objects.count() == Segment.objects.filter(kind="adopt").count() == 1


@pytest.mark.django_db(transaction=True)
def test_cancel_pause_and_result_at_once_leave_one_truth(run: TrainingRun, store: Path, alice: User) -> None:
    queue_another(run)
    result = make_result(run, store)
    at_once(
        [
            lambda: trainings.cancel_run(run=fetch(run), by=alice),
            lambda: trainings.pause_run(run=fetch(run), by=alice),
            lambda: flow.handle_training_result(result, by="control"),
            lambda: flow.wake_silent_run(fetch(run)),
        ]
    )
    state = fetch(run).state
    assert (state, Adapter.objects.count()) in [("succeeded", 1), ("cancelled", 0)]
