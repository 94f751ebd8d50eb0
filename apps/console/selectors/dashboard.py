"""What goes on in a project at a glance. Every read is bounded: nothing here grows with the project's history."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Sum
from django.db.models.functions import Now, TruncHour
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.models import Project
from apps.console.selectors.upkeep import QueueDepth, find_queue_depths
from apps.feedback.models import Review
from apps.inference.models import Exchange
from apps.outbox.models import Segment
from apps.rollouts.models import Batch
from apps.tasks.models import Task
from apps.training.models import TrainingRun

HOURS = 24
LATEST_TASKS = 5_000
LATEST_CALLS = 1_000
MOST = 1_000
"""Counts stop here."""
UNSENT = timedelta(minutes=1)


@dataclass(frozen=True)
class Alarm:
    """Something that needs a person, and the page where they can do something about it."""

    words: str
    page: str
    todo: str
    is_bad: bool = True


@dataclass(frozen=True)
class HourCount:
    """Tasks done in the hour that begins at `at`; `height` of its bar in a box 100 high."""

    at: datetime
    done: int
    height: int

    @property
    def top(self) -> int:
        return 100 - self.height


@dataclass(frozen=True)
class Spending:
    """What the latest calls to models cost; `latency_ms` is the mean, None where nobody measured.

    Attributes:
        hours: how long ago the oldest of them was.
    """

    calls: int
    prompt_tokens: int
    completion_tokens: int
    hours: float

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def tokens_per_call(self) -> float:
        return self.tokens / self.calls if self.calls else 0.0


@dataclass(frozen=True)
class Glance:
    """The dashboard's figures beyond learning."""

    hours: Sequence[HourCount]
    is_partial: bool
    spending: Spending
    depths: Sequence[QueueDepth]
    open_reviews: int
    alarms: Sequence[Alarm]

    @property
    def done(self) -> int:
        return sum(hour.done for hour in self.hours)

    @property
    def busiest(self) -> int:
        return max((hour.done for hour in self.hours), default=0)


def glance(project: Project) -> Glance:
    """About ten queries."""
    hours, is_partial = _count_hours(project)
    return Glance(
        hours=hours,
        is_partial=is_partial,
        spending=_count_spending(project),
        depths=find_queue_depths(project),
        open_reviews=_count(Review.objects.filter(project=project, state=Review.State.OPEN, audience="human")),
        alarms=find_alarms(project),
    )


def find_alarms(project: Project) -> list[Alarm]:
    """What needs a person, the worst first."""
    return [*_find_dead(project), *_find_stalled(project), *_find_troubled(project)]


def _find_dead(project: Project) -> list[Alarm]:
    dead = _count(Segment.objects.filter(project_id=project.pk, state=Segment.State.DEAD))
    if not dead:
        return []
    words = ngettext("%(n)s piece of work was given up.", "%(n)s pieces of work were given up.", dead)
    return [Alarm(words % {"n": _cap(dead)}, "dead-letters", _("See why, replay"))]


def _find_stalled(project: Project) -> list[Alarm]:
    found = []
    silence = timedelta(seconds=settings.TENTALIS["RUN_SILENCE_SECONDS"])
    runs = TrainingRun.objects.filter(project=project)
    silent = runs.filter(state=TrainingRun.State.RUNNING, heartbeat_at__lt=Now() - silence)
    if ids := list(silent.values_list("pk", flat=True)[:5]):
        words = _("The training box has gone silent in run %s.") % ", ".join(map(str, ids))
        found.append(Alarm(words, "run-list", _("See the runs")))
    newest = runs.order_by("worker_id", "-id").distinct("worker_id").values_list("pk", "worker__name", "state")
    for pk, worker, state in newest[:20]:
        if state == TrainingRun.State.FAILED:
            words = _("The last training of %(worker)s failed (run %(run)s).") % {"worker": worker, "run": pk}
            found.append(Alarm(words, "run-list", _("See why")))
    unsent = Batch.objects.filter(
        project=project, state=Batch.State.CLOSED, run=None, closed_at__lt=Now() - UNSENT
    ).values_list("number", flat=True)
    if numbers := list(unsent[:5]):
        words = _("Batch %s is full and nothing trains it.") % ", ".join(map(str, numbers))
        found.append(Alarm(words, "blockers", _("What does it wait for?")))
    if not project.learning_enabled:
        found.append(Alarm(_("Learning is switched off."), "blockers", _("What that means"), is_bad=False))
    return found


def _find_troubled(project: Project) -> list[Alarm]:
    """What is being tried again, and calls that models refused lately."""
    found = []
    retried = _count(
        Segment.objects.filter(
            project_id=project.pk, state=Segment.State.OPEN, published_at=None, run_after__gt=Now()
        ).exclude(errors=[])
    )
    if retried:
        words = ngettext(
            "%(n)s piece of work waits to be tried again.", "%(n)s pieces wait to be tried again.", retried
        )
        found.append(Alarm(words % {"n": _cap(retried)}, "dead-letters", _("See the queues"), is_bad=False))
    latest = Exchange.objects.filter(project=project).order_by("-id").values("pk")[:LATEST_CALLS]
    failed = Exchange.objects.filter(pk__in=latest).exclude(error="").count()
    if failed:
        words = ngettext(
            "%(n)s of the latest %(all)s calls to a model failed.",
            "%(n)s of the latest %(all)s calls to models failed.",
            failed,
        )
        found.append(
            Alarm(words % {"n": failed, "all": f"{LATEST_CALLS:,}"}, "worker-list", _("See the workers"), is_bad=False)
        )
    return found


def _count_hours(project: Project) -> tuple[list[HourCount], bool]:
    """Tasks done by the hour, and whether there may be more than the latest `LATEST_TASKS` tell."""
    now = timezone.now()
    first = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS - 1)
    done = Task.objects.filter(project=project, state=Task.State.DONE).order_by("-id").values("pk")[:LATEST_TASKS]
    rows: Any = (
        Task.objects.filter(pk__in=done, updated_at__gte=first)
        .order_by()
        .annotate(hour=TruncHour("updated_at"))
        .values_list("hour")
        .annotate(count=Count("pk"))
    )
    counts = dict(rows)
    most = max(counts.values(), default=0)
    hours = []
    for place in range(HOURS):
        at = first + timedelta(hours=place)
        count = counts.get(at, 0)
        hours.append(HourCount(at, count, max(2, round(96 * count / most)) if count else 0))
    return hours, sum(counts.values()) >= LATEST_TASKS


def _count_spending(project: Project) -> Spending:
    latest = Exchange.objects.filter(project=project).order_by("-id").values("pk")[:LATEST_CALLS]
    rows = Exchange.objects.filter(pk__in=latest)
    found = rows.aggregate(calls=Count("pk"), prompt=Sum("prompt_tokens"), completion=Sum("completion_tokens"))
    oldest = rows.order_by("pk").values_list("created_at", flat=True).first()
    return Spending(
        calls=found["calls"],
        prompt_tokens=found["prompt"] or 0,
        completion_tokens=found["completion"] or 0,
        hours=(timezone.now() - oldest).total_seconds() / 3600 if oldest else 0.0,
    )


def _count(rows: Any) -> int:
    return int(rows.order_by()[:MOST].count())


def _cap(count: int) -> str:
    return f"{MOST:,}+" if count >= MOST else f"{count:,}"
