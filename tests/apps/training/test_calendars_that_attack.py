"""Calendars written to be awkward: refused in words; what is stored already stops its own project only."""

import pytest

from apps.accounts.models import Project
from apps.accounts.rules import check_project_settings
from apps.base.errors import BadInputError
from apps.pipeline import sweep
from apps.training import schedule
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tests.apps.training.test_schedule import is_sent, queue
from tests.factories import make_project, make_worker

pytestmark = pytest.mark.django_db


def write(event: str) -> str:
    return (
        f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:a\r\n{event}END:VEVENT\r\nEND:VCALENDAR\r\n"
    )


DAY = "DTSTART:20261101T000000Z\r\nDTEND:20261101T010000Z\r\n"
BROKEN = {
    "a rule without a frequency": f"{DAY}RRULE:FREQ=OFTEN\r\n",
    "an end that is no time": f"{DAY}RRULE:FREQ=DAILY;UNTIL=zzz\r\n",
    "no start": "SUMMARY:x\r\n",
    "a day that does not exist": "DTSTART:20261131T000000Z\r\nDTEND:20261201T000000Z\r\n",
    "longer than time": "DTSTART:20261101T000000Z\r\nDURATION:P99999999999D\r\n",
}
ENDLESS = {"steps of nothing": f"{DAY}RRULE:FREQ=DAILY;INTERVAL=0\r\n"}


@pytest.fixture
def worker(settings: object, tmp_path: object) -> Worker:
    settings.ARTIFACTS = tmp_path  # type: ignore[attr-defined]
    return make_worker(make_project(slug="desk"))


@pytest.mark.parametrize("event", [*BROKEN.values(), *ENDLESS.values()], ids=[*BROKEN, *ENDLESS])
def test_what_cannot_be_asked_is_refused_when_it_is_written(event: str) -> None:
    with pytest.raises(BadInputError, match="calendar: wanted an iCalendar text"):
        check_project_settings({"training_policy": {"calendar": write(event)}})


@pytest.mark.parametrize("event", BROKEN.values(), ids=BROKEN.keys())
def test_one_projects_unreadable_calendar_keeps_nobody_else_from_training(worker: Worker, event: str) -> None:
    """As one that was stored before such were refused."""
    policy = {"calendar": write(event), "pauses_outside": True}
    Project.objects.filter(pk=worker.project_id).update(training_policy=policy)
    mine, theirs = queue(worker), queue(make_worker(make_project(slug="shop")))
    resting = queue(make_worker(worker.project, "resting"))
    TrainingRun.objects.filter(pk=resting.pk).update(state="paused", waiting_reason=schedule.OUTSIDE_HOURS)
    sweep.sweep_runs()
    assert is_sent(theirs)
    assert not is_sent(mine)


def test_its_own_runs_say_what_they_wait_for(worker: Worker) -> None:
    policy = {"calendar": write(BROKEN["no start"])}
    Project.objects.filter(pk=worker.project_id).update(training_policy=policy)
    run = queue(worker)
    sweep.sweep_runs()
    run.refresh_from_db()
    assert run.waiting_reason.startswith("its calendar cannot be read: ")


BOMBS = {
    "every second": "RRULE:FREQ=SECONDLY\r\n",
    "every minute": "RRULE:FREQ=MINUTELY\r\n",
    "every second of an hour": "RRULE:FREQ=HOURLY;BYMINUTE=0,1,2;BYSECOND=0,1,2\r\n",
}


@pytest.mark.parametrize("rule", BOMBS.values(), ids=BOMBS.keys())
def test_what_recurs_more_often_than_hourly_is_refused_in_words_wherever_it_begins(rule: str) -> None:
    later = "DTSTART:21260101T000000Z\r\nDTEND:21260101T000001Z\r\n"
    with pytest.raises(BadInputError, match="recur hourly or more seldom"):
        check_project_settings({"training_policy": {"calendar": write(later + rule)}})


def test_a_calendar_that_is_stored_is_unfolded_in_a_child_once_and_not_under_a_lock(worker: Worker) -> None:
    policy = {"calendar": write(f"{DAY}RRULE:FREQ=DAILY\r\n"), "timezone": "Europe/Berlin"}
    Project.objects.filter(pk=worker.project_id).update(training_policy=policy)
    run = queue(worker)
    wait = schedule.why_wait(run, may_look=False)
    assert wait is not None
    assert wait.words == "its calendar cannot be read: it is being looked at"
    schedule.look_ahead(Project.objects.get(pk=worker.project_id))
    looked = schedule.why_wait(run, may_look=False)
    assert looked is None or looked.words.startswith("its calendar says")
