"""What a project's hours, calendar and quotas come to just now, as the settings page says it."""

from dataclasses import dataclass
from datetime import datetime

from apps.accounts.calendars import CalendarError, CalendarState, ask_calendar
from apps.accounts.models import Project
from apps.training.models import TrainingRun
from apps.training.schedule import Wait, count_begun, measure_use, read_training_policy, why_closed
from tentalis.core.learning.windows import TrainingPolicy


@dataclass(frozen=True)
class TrainingTimetable:
    """Whether a run would be sent now, and what of the quotas is used.

    Attributes:
        closed: why the clock keeps it from training; None while it may.
        calendar: what the calendar says of now; None where there is none, or `closed` says that it cannot be read.
        used_s: seconds trained in the last 24 hours, runs under way included; begun: runs begun in them.
        waiting: runs that are queued, whatever they wait for.
    """

    policy: TrainingPolicy
    now: datetime
    closed: Wait | None
    calendar: CalendarState | None
    used_s: float
    begun: int
    waiting: int

    @property
    def is_used_up(self) -> bool:
        """Whether a quota keeps runs waiting."""
        seconds, runs = self.policy.gpu_s_per_day, self.policy.runs_per_day
        return (seconds is not None and self.used_s >= seconds) or (runs is not None and self.begun >= runs)


def read_timetable(project: Project, *, now: datetime) -> TrainingTimetable:
    """Three queries.

    Args:
        now: aware.
    """
    policy = read_training_policy(project)
    local = now.astimezone(policy.zone)
    runs = TrainingRun.objects.filter(project=project)
    return TrainingTimetable(
        policy=policy,
        now=local,
        closed=why_closed(policy, now=now),
        calendar=_ask(policy.calendar, local),
        used_s=measure_use([project.pk]).get(project.pk, 0.0),
        begun=count_begun(project.pk),
        waiting=runs.filter(state=TrainingRun.State.QUEUED).count(),
    )


def _ask(text: str, now: datetime) -> CalendarState | None:
    try:
        return ask_calendar(text, now=now) if text else None
    except CalendarError:
        return None
