"""What goes on in a project at a glance. Every read is bounded: nothing here grows with the project's history."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.conf import settings
from django.db.models import Count, OuterRef, Q, Subquery, Sum
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.models import Project
from apps.adapters.models import Adapter, Deployment
from apps.calibration.models import Rater
from apps.console.selectors.quality import name_rater
from apps.inference.models import Exchange
from apps.outbox.selectors import find_newest_dead, find_server_wait
from apps.reports.queues import QueueDepth, find_open_queues
from apps.rollouts.models import Batch
from apps.tasks.models import Task
from apps.training.models import TrainingRun
from apps.training.retrying import find_untaken

HOURS = 24
LATEST_TASKS = 5_000
LATEST_CALLS = 1_000
LATEST_BATCHES = 60
MOST_WATCHED = 50
MOST = 1_000
"""Counts stop here."""
MOST_REASON_CHARS = 200
UNSENT = timedelta(minutes=1)


@dataclass(frozen=True)
class ActionNeeded:
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
    """What the latest calls to models cost, and how many of them failed. `usd` None: no price was known."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    failed: int
    usd: Decimal | None = None

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def tokens_per_call(self) -> float:
        return self.tokens / self.calls if self.calls else 0.0


@dataclass(frozen=True)
class Glance:
    """The dashboard's figures beyond learning. `filling`: worker id -> the batch its tasks go into."""

    hours: Sequence[HourCount]
    is_partial: bool
    spending: Spending
    depths: Sequence[QueueDepth]
    filling: Mapping[int, Batch]
    alarms: Sequence[ActionNeeded]

    @property
    def done(self) -> int:
        return sum(hour.done for hour in self.hours)

    @property
    def busiest(self) -> int:
        return max((hour.done for hour in self.hours), default=0)


def glance(project: Project) -> Glance:
    """Eight queries."""
    hours, is_partial = _count_hours(project)
    batches = _find_batches(project)
    depths, spending = find_open_queues(project), _count_spending(project)
    return Glance(
        hours=hours,
        is_partial=is_partial,
        spending=spending,
        depths=depths,
        filling={batch.worker_id: batch for batch in batches if batch.state == Batch.State.OPEN},
        alarms=[
            *_find_away(project),
            *_find_dead(project),
            *_find_misserved(project),
            *_find_refused(project),
            *_find_stalled(project, batches),
            *_find_troubled(project, depths, spending),
        ],
    )


def _find_away(project: Project) -> list[ActionNeeded]:
    if (waits := find_server_wait(project.pk)) is None:
        return []
    words = ngettext(
        "%(n)s job waits and goes on by itself: %(reason)s",
        "%(n)s jobs wait and go on by themselves: %(reason)s",
        waits.count,
    )
    return [ActionNeeded(words % {"n": _cap(waits.count), "reason": waits.reason}, "health", _("See its health"))]


def _find_dead(project: Project) -> list[ActionNeeded]:
    if (found := find_newest_dead(project.pk)) is None:
        return []
    words = ngettext(
        "%(n)s job failed (tries: %(tries)s): %(reason)s",
        "%(n)s jobs failed (tries of the latest: %(tries)s): %(reason)s",
        found.count,
    )
    words = words % {"n": _cap(found.count), "tries": found.attempts, "reason": found.reason[:MOST_REASON_CHARS]}
    return [ActionNeeded(words, "dead-letters", _("See why, replay"))]


def _find_misserved(project: Project) -> list[ActionNeeded]:
    """Where what serves is not what should, and what its monitors heard of it. One query."""
    made_by = TrainingRun.objects.filter(pk=OuterRef("adapter__run_id"))
    serving = Deployment.objects.filter(Q(end_user="") | ~Q(trouble=""), worker__project=project)
    told = serving.annotate(heard=Subquery(made_by.values("alarms")[:1])).select_related("worker", "adapter")
    found = []
    for one in told.order_by("pk")[:MOST_WATCHED]:
        if one.trouble:
            words = _("%(worker)s is not served as it should be, and does not train: %(trouble)s.")
            words = words % {"worker": one.worker.name, "trouble": one.trouble}
            found.append(ActionNeeded(words, "adapter-list", _("See what serves")))
        if one.heard and one.adapter is not None:
            words = ngettext(
                "%(n)s alarm on %(adapter)s, which serves.",
                "%(n)s alarms on %(adapter)s, which serves.",
                len(one.heard),
            )
            words = words % {"n": len(one.heard), "adapter": one.adapter.name}
            found.append(ActionNeeded(words, "adapter-list", _("See what serves"), is_bad=False))
    return found


def _find_refused(project: Project) -> list[ActionNeeded]:
    """Workers whose newest adapter the gate keeps from serving. One query."""
    newest = Adapter.objects.filter(project=project, end_user="").select_related("worker").defer("manifest")
    of_worker: dict[int, Adapter] = {}
    for adapter in newest.order_by("-id")[:LATEST_BATCHES]:
        of_worker.setdefault(adapter.worker_id, adapter)
    told: dict[str, str] = {
        Adapter.State.REFUSED: _("The gate refused %(adapter)s, the newest of %(worker)s."),
        Adapter.State.QUARANTINED: _("%(adapter)s, the newest of %(worker)s, is under suspicion."),
    }
    return [
        ActionNeeded(
            told[adapter.state] % {"adapter": adapter.name, "worker": adapter.worker.name},
            "adapter-list",
            _("See why"),
            is_bad=False,
        )
        for adapter in of_worker.values()
        if adapter.state in told
    ]


def _find_batches(project: Project) -> list[Batch]:
    """The open ones first, then the newest full ones, with their runs."""
    batches = Batch.objects.filter(project=project).select_related("run", "worker")
    return list(batches.defer("run__metrics", "run__spec", "run__recipe").order_by("-state", "-id")[:LATEST_BATCHES])


def _find_stalled(project: Project, batches: Sequence[Batch]) -> list[ActionNeeded]:
    """What keeps the newest full batches from becoming adapters."""
    found = []
    now = timezone.now()
    silence = timedelta(seconds=settings.TENTALIS["RUN_SILENCE_SECONDS"])
    seen: set[int] = set()
    for batch in (batch for batch in batches if batch.state == Batch.State.CLOSED):
        run: TrainingRun | None = getattr(batch, "run", None)
        if run is None:
            if batch.closed_at is None or batch.closed_at < now - UNSENT:
                words = _("Batch %(n)s of %(worker)s is full and nothing trains it.")
                words = words % {"n": batch.number, "worker": batch.worker.name}
                found.append(ActionNeeded(words, "blockers", _("See the training status")))
            continue
        is_running = run.state == TrainingRun.State.RUNNING
        if find_untaken(run) is not None:
            words = _("No training machine takes up run %s.") % run.pk
            found.append(ActionNeeded(words, "run-list", _("See the runs")))
        elif is_running and run.heartbeat_at is not None and run.heartbeat_at < now - silence:
            words = _("The training machine does not report in run %s any more.") % run.pk
            found.append(ActionNeeded(words, "run-list", _("See the runs")))
        elif run.state in {TrainingRun.State.FAILED, TrainingRun.State.REFUSED} and batch.worker_id not in seen:
            is_refused = run.state == TrainingRun.State.REFUSED
            words = _("The last training of %(worker)s failed (run %(run)s).")
            words = _("The last training of %(worker)s was refused (run %(run)s).") if is_refused else words
            words = words % {"worker": batch.worker.name, "run": run.pk}
            found.append(ActionNeeded(words, "run-list", _("See why")))
        seen.add(batch.worker_id)
    if not project.learning_enabled:
        found.append(ActionNeeded(_("Learning is switched off."), "blockers", _("What that means"), is_bad=False))
    return found


def _find_troubled(project: Project, depths: Sequence[QueueDepth], spending: Spending) -> list[ActionNeeded]:
    """Raters whose word is not used, what is being tried again, and calls that models refused lately."""
    found = []
    raters = Rater.objects.filter(project=project, quarantined_at__isnull=False).values_list("handle", flat=True)
    if handles := list(raters[:5]):
        words = _("No longer counted: %s.") % ", ".join(map(name_rater, handles))
        found.append(ActionNeeded(words, "quality", _("See their record"), is_bad=False))
    if retried := sum(depth.retrying for depth in depths):
        words = ngettext("%s job will be retried.", "%s jobs will be retried.", retried)
        found.append(ActionNeeded(words % f"{retried:,}", "dead-letters", _("See the queues"), is_bad=False))
    if failed := spending.failed:
        words = ngettext(
            "%(n)s of the latest %(all)s calls to models failed.",
            "%(n)s of the latest %(all)s calls to models failed.",
            failed,
        )
        words = words % {"n": failed, "all": f"{spending.calls:,}"}
        found.append(ActionNeeded(words, "worker-list", _("See the workers"), is_bad=False))
    return found


def _count_hours(project: Project) -> tuple[list[HourCount], bool]:
    """Tasks done by the hour, and whether there are more than the latest `LATEST_TASKS` tell."""
    now = timezone.now()
    first = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS - 1)
    done = Task.objects.filter(project=project, state=Task.State.DONE, updated_at__gte=first).order_by("-updated_at")
    times = done.values_list("updated_at", flat=True)[:LATEST_TASKS]
    counts = Counter(at.replace(minute=0, second=0, microsecond=0) for at in times)
    most = max(counts.values(), default=0)
    hours = []
    for place in range(HOURS):
        at = first + timedelta(hours=place)
        count = counts.get(at, 0)
        hours.append(HourCount(at, count, max(2, round(96 * count / most)) if count else 0))
    return hours, sum(counts.values()) >= LATEST_TASKS


def _count_spending(project: Project) -> Spending:
    latest = Exchange.objects.filter(project=project).order_by("-id")
    needed = ("pk", "prompt_tokens", "completion_tokens", "cost_usd")
    found = latest.only(*needed, *Exchange.FAILED_BY)[:LATEST_CALLS].aggregate(
        calls=Count("pk"),
        prompt=Sum("prompt_tokens"),
        completion=Sum("completion_tokens"),
        failed=Count("pk", filter=Exchange.FAILED),
        usd=Sum("cost_usd"),
    )
    return Spending(found["calls"], found["prompt"] or 0, found["completion"] or 0, found["failed"], found["usd"])


def _cap(count: int) -> str:
    return f"{MOST:,}+" if count >= MOST else f"{count:,}"
