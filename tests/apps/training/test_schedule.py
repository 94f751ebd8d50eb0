"""When runs are sent: hours, calendars, quotas, places, fairness; pausing and going on."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.calendars import ask_calendar
from apps.accounts.models import Project
from apps.accounts.rules import check_project_settings
from apps.base.errors import BadInputError, IllegalMoveError, NotFoundError
from apps.outbox.models import Segment
from apps.pipeline import flow, sweep, trainings
from apps.rollouts.models import Batch
from apps.training import schedule, services
from apps.training.models import GpuLease, TrainingRun
from apps.workers.models import Worker
from tentalis.core.contracts import Outcome
from tests.apps.training.test_runs import make_result
from tests.factories import make_project, make_user, make_worker

pytestmark = pytest.mark.django_db

CALENDAR = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//shop//desk//EN
BEGIN:VEVENT
UID:stocktaking@shop
DTSTART;TZID=Europe/Berlin:20261116T090000
DTEND;TZID=Europe/Berlin:20261116T170000
RRULE:FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR
EXDATE;TZID=Europe/Berlin:20261118T090000
SUMMARY:Shop hours
END:VEVENT
END:VCALENDAR
"""


def queue(worker: Worker, *, number: int = 1, priority: int = 0) -> TrainingRun:
    batch = Batch.objects.create(
        project=worker.project, worker=worker, number=number, target_tasks=1, state=Batch.State.CLOSED
    )
    run = services.queue_run(batch=batch, by="ledger")
    TrainingRun.objects.filter(pk=run.pk).update(priority=priority)
    return fetch(run)


def fetch(run: TrainingRun) -> TrainingRun:
    return TrainingRun.objects.select_related("project", "worker").get(pk=run.pk)


def is_sent(run: TrainingRun) -> bool:
    return Segment.objects.filter(kind="train", subject_id=run.pk, state="open").exists()


def set_policy(project: Project, **policy: object) -> None:
    check_project_settings({"training_policy": policy})
    Project.objects.filter(pk=project.pk).update(training_policy=policy)


def closed_hours() -> list[str]:
    """A stretch that holds neither now nor soon."""
    begin = timezone.now() + timedelta(hours=6)
    return [f"{begin:%a} {begin:%H}:00-{begin:%H}:30".lower()]


@pytest.fixture
def worker(settings: object, tmp_path: Path) -> Worker:
    settings.ARTIFACTS = tmp_path  # type: ignore[attr-defined]
    return make_worker(make_project(slug="desk"))


def test_a_run_outside_its_projects_hours_waits_and_says_until_when(worker: Worker) -> None:
    set_policy(worker.project, hours=closed_hours())
    run = queue(worker)
    flow.train_waiting()
    run.refresh_from_db()
    assert not is_sent(run)
    assert run.waiting_reason.startswith("outside its training hours, which begin ")
    set_policy(worker.project)
    sweep.sweep_runs()
    run.refresh_from_db()
    assert is_sent(run)
    assert run.waiting_reason == ""


@pytest.mark.parametrize(
    ("when", "in_event", "until"),
    [
        (datetime(2026, 11, 20, 10, tzinfo=UTC), True, datetime(2026, 11, 20, 16, tzinfo=UTC)),
        (datetime(2026, 11, 20, 17, tzinfo=UTC), False, datetime(2026, 11, 23, 8, tzinfo=UTC)),
        (datetime(2026, 11, 18, 10, tzinfo=UTC), False, datetime(2026, 11, 19, 8, tzinfo=UTC)),
    ],
)
def test_a_calendar_closes_the_box_with_recurrences_and_exceptions(
    when: datetime, in_event: bool, until: datetime
) -> None:
    said = ask_calendar(CALENDAR, now=when.astimezone(ZoneInfo("Europe/Berlin")))
    assert (said.in_event, said.until) == (in_event, until)


def test_a_calendar_can_open_instead(worker: Worker) -> None:
    set_policy(worker.project, calendar=CALENDAR, calendar_means="open", timezone="Europe/Berlin")
    run = queue(worker)
    run.project.refresh_from_db()
    assert schedule.why_wait(run, now=datetime(2026, 11, 20, 10, tzinfo=UTC)) is None
    wait = schedule.why_wait(run, now=datetime(2026, 11, 20, 17, tzinfo=UTC))
    assert wait is not None
    assert "no training time now, which begins Mon 23 Nov 09:00" in wait.words


def test_a_text_that_is_no_calendar_is_refused_by_name() -> None:
    with pytest.raises(BadInputError, match="calendar: wanted an iCalendar text"):
        check_project_settings({"training_policy": {"calendar": "next monday"}})


def test_quotas_of_seconds_and_of_runs_make_the_next_run_wait(worker: Worker) -> None:
    done = queue(worker)
    TrainingRun.objects.filter(pk=done.pk).update(
        state="succeeded",
        begun_at=Now() - timedelta(hours=2),
        started_at=Now() - timedelta(hours=2),
        finished_at=Now() - timedelta(hours=1),
    )
    run = queue(worker, number=2)
    for policy, words in (
        ({"gpu_s_per_day": 3000}, "3,600 of 3,000 seconds"),
        ({"runs_per_day": 1}, "1 of 1 runs in 24 hours"),
    ):
        set_policy(worker.project, **policy)
        run.project.refresh_from_db()
        wait = schedule.why_wait(run)
        assert wait is not None
        assert words in wait.words
    set_policy(worker.project, gpu_s_per_day=4000, runs_per_day=2)
    run.project.refresh_from_db()
    assert schedule.why_wait(run) is None


def test_a_run_that_is_tried_again_is_no_further_run_of_the_day_on_which_it_is_tried(worker: Worker) -> None:
    set_policy(worker.project, runs_per_day=1)
    old, new = queue(worker), queue(worker, number=2)
    boss = make_user("boss", is_superuser=True)
    services.dispatch_run(old.pk, by="test")
    day_before = Now() - timedelta(hours=30)
    TrainingRun.objects.filter(pk=old.pk).update(state="failed", begun_at=day_before, started_at=day_before)
    trainings.retry_run(run=fetch(old), by=boss)
    services.dispatch_run(old.pk, by="test")
    assert (fetch(old).state, fetch(old).attempt) == ("running", 2)
    assert schedule.why_wait(fetch(new)) is None, "what was begun the day before is begun once"
    TrainingRun.objects.filter(pk=old.pk).update(state="succeeded")
    services.dispatch_run(new.pk, by="test")
    for _ in range(2):
        TrainingRun.objects.filter(pk=new.pk).update(state="failed", finished_at=Now())
        trainings.retry_run(run=fetch(new), by=boss)
        assert schedule.why_wait(fetch(new)) is None, "it is a run of this day already"
        services.dispatch_run(new.pk, by="test")
        assert fetch(new).state == "running"
    wait = schedule.why_wait(queue(worker, number=3))
    assert wait is not None
    assert wait.words == "1 of 1 runs in 24 hours are used up"


@pytest.mark.parametrize("was_paused", [False, True])
def test_a_run_that_is_cancelled_while_it_waits_or_is_paused_has_ended(worker: Worker, was_paused: bool) -> None:
    run, boss = queue(worker), make_user("boss", is_superuser=True)
    if was_paused:
        trainings.pause_run(run=run, by=boss)
    trainings.cancel_run(run=fetch(run), by=boss)
    ended = fetch(run)
    assert (ended.state, ended.started_at, ended.begun_at) == ("cancelled", None, None)
    assert ended.finished_at is not None


def test_a_run_that_is_tried_again_waits_for_the_quota_that_it_used_up(worker: Worker) -> None:
    boss, run = make_user("boss", is_superuser=True), queue(worker)
    set_policy(worker.project, gpu_s_per_day=3000)
    for count in (1, 2):
        TrainingRun.objects.filter(pk=run.pk).update(
            state="failed", started_at=Now() - timedelta(hours=2), finished_at=Now() - timedelta(hours=1)
        )
        run = TrainingRun.objects.select_related("project").get(pk=run.pk)
        trainings.retry_run(run=run, by=boss)
        run.refresh_from_db()
        assert not is_sent(run)
        assert run.waiting_reason == f"{count * 3600:,} of 3,000 seconds of training in 24 hours are used up"


def test_one_place_is_one_run_and_the_others_say_who_has_it(worker: Worker) -> None:
    first, second = queue(worker), queue(make_worker(make_project(slug="other"), name="other"))
    flow.train_waiting()
    second.refresh_from_db()
    assert is_sent(first)
    assert not is_sent(second)
    assert second.waiting_reason == f"waits for a free training machine: run {first.pk} has it"
    Segment.objects.all().delete()
    TrainingRun.objects.filter(pk=first.pk).update(state="failed")
    flow.train_waiting()
    assert is_sent(second)
    assert GpuLease.objects.get().run == second


def test_a_lease_that_ran_out_is_free_again_and_a_renewed_one_is_not(worker: Worker) -> None:
    first, second = queue(worker), queue(make_worker(make_project(slug="other"), name="other"))
    assert schedule.take_place(first)
    GpuLease.objects.update(expires_at=Now() - timedelta(seconds=1))
    schedule.renew_place(first.pk)
    assert not schedule.take_place(second)
    GpuLease.objects.update(expires_at=Now() - timedelta(seconds=1))
    assert schedule.take_place(second)
    assert not schedule.take_place(first)


def test_the_project_that_had_least_of_its_share_is_offered_the_place_first(worker: Worker) -> None:
    hungry = make_worker(make_project(slug="hungry"), name="hungry")
    used = queue(worker)
    TrainingRun.objects.filter(pk=used.pk).update(
        state="succeeded", started_at=Now() - timedelta(hours=2), finished_at=Now() - timedelta(hours=1)
    )
    late, early = queue(hungry, number=1), queue(worker, number=2)
    assert early.pk > late.pk
    assert schedule.find_waiting_workers() == [hungry.pk, worker.pk]
    another = queue(make_worker(make_project(slug="new"), name="new"), priority=5)
    TrainingRun.objects.filter(pk=another.pk).update(started_at=None)
    assert schedule.find_waiting_workers()[-1] == worker.pk


def test_a_higher_priority_goes_first_within_a_worker(worker: Worker) -> None:
    queue(worker)
    urgent = queue(worker, number=2, priority=3)
    assert services.find_next_run(worker.pk) == urgent


def test_a_run_at_work_is_told_to_pause_and_goes_on_when_asked(worker: Worker, tmp_path: Path) -> None:
    boss = make_user("boss", is_superuser=True)
    run = queue(worker)
    output = tmp_path / "runs" / "x"
    output.mkdir(parents=True)
    TrainingRun.objects.filter(pk=run.pk).update(
        state="running", attempt=1, started_at=Now(), heartbeat_at=Now(), spec={"output_uri": output.as_uri()}
    )
    run.refresh_from_db()
    trainings.pause_run(run=run, by=boss)
    assert (output / "pause").read_text() == "paused by user:boss"
    paused = make_result(
        run, tmp_path, outcome=Outcome.PAUSED, error_type="PausedError", error_message="paused by user:boss"
    )
    flow.handle_training_result(paused, by="control")
    run.refresh_from_db()
    assert (run.state, run.failure) == ("paused", "")
    assert run.cost["gpu_s"] >= 0
    with pytest.raises(IllegalMoveError, match="cannot be paused: wanted queued or running, found paused"):
        trainings.pause_run(run=run, by=boss)
    trainings.resume_run(run=run, by=boss)
    assert is_sent(run)


def test_a_paused_run_holds_up_its_worker_and_not_the_box(worker: Worker) -> None:
    run, behind = queue(worker), queue(worker, number=2)
    other = queue(make_worker(make_project(slug="other"), name="other"))
    services.pause_run(run, why="lunch", by="user:boss")
    flow.train_waiting()
    assert not is_sent(behind)
    assert is_sent(other)


def test_the_schedule_pauses_what_trains_after_hours_and_lets_it_go_on_when_they_begin(
    worker: Worker, tmp_path: Path
) -> None:
    set_policy(worker.project, hours=closed_hours(), pauses_outside=True)
    run = queue(worker)
    output = tmp_path / "runs" / "x"
    output.mkdir(parents=True)
    TrainingRun.objects.filter(pk=run.pk).update(
        state="running", attempt=1, started_at=Now(), heartbeat_at=Now(), spec={"output_uri": output.as_uri()}
    )
    trainings.keep_hours()
    words = (output / "pause").read_text()
    assert words == schedule.OUTSIDE_HOURS
    run.refresh_from_db()
    flow.handle_training_result(
        make_result(run, tmp_path, outcome=Outcome.PAUSED, error_type="PausedError", error_message=words), by="control"
    )
    assert trainings.keep_hours() == 0
    set_policy(worker.project)
    assert trainings.keep_hours() == 1
    assert is_sent(run)


def test_a_run_that_was_refused_is_tried_again_when_somebody_asks(worker: Worker) -> None:
    boss, charlie = make_user("boss", is_superuser=True), make_user("charlie")
    run = queue(worker)
    with pytest.raises(
        IllegalMoveError, match="cannot be tried again: wanted failed or refused or cancelled, found queued"
    ):
        trainings.retry_run(run=run, by=boss)
    TrainingRun.objects.filter(pk=run.pk).update(state="refused", failure="G1: 12 distinct tasks are solved")
    run.refresh_from_db()
    with pytest.raises(NotFoundError):
        trainings.retry_run(run=run, by=charlie)
    trainings.retry_run(run=run, by=boss)
    run.refresh_from_db()
    assert (run.state, run.failure) == ("queued", "")
    assert is_sent(run)
