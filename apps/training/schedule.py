"""When a run is sent: its project's hours, quiet and quota, a free place on the box, and fairness between projects."""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.calendars import CalendarError, ask_calendar
from apps.accounts.models import Project
from apps.adapters.selectors import find_trouble
from apps.inference.models import Exchange
from apps.training import rebuilding
from apps.training.models import GpuLease, TrainingRun
from tentalis.core.learning.windows import TrainingPolicy, Waiting, find_opening, order_fairly

State = TrainingRun.State
DAY = timedelta(days=1)
TRAINS = Q(state=State.RUNNING)
ELSEWHERE_SLOTS = {"openrlhf": 1, "tinker": 4}
"""Places of the backends that train on machines of their own; the standalone one's are a setting."""


class Wait(NamedTuple):
    """Why a run is not sent now, in words, and until when at least (None: nobody knows)."""

    words: str
    until: datetime | None = None


def read_training_policy(project: Project) -> TrainingPolicy:
    return TrainingPolicy.from_json(project.training_policy)


def why_closed(policy: TrainingPolicy, *, now: datetime, may_look: bool = True) -> Wait | None:
    """What of the clock keeps a project from training; None while it may.

    Args:
        may_look: False under a lock: a calendar is only read where `look_ahead` has looked.
    """
    local = now.astimezone(policy.zone)
    if (opening := find_opening(policy.hours, zone=policy.zone, now=now)) is not None:
        return Wait(f"outside its training hours, which begin {opening:%a %H:%M} ({policy.timezone})", opening)
    if policy.calendar:
        try:
            said = ask_calendar(policy.calendar, now=local, may_look=may_look)
        except CalendarError as error:
            return Wait(f"its calendar cannot be read: {error}")
        if said.in_event and policy.calendar_means == "closed":
            until = f" until {said.until:%a %d %b %H:%M}" if said.until else ""
            return Wait(f"its calendar says {said.summary or 'closed'}{until}", said.until)
        if not said.in_event and policy.calendar_means == "open":
            begins = f", which begins {said.until:%a %d %b %H:%M}" if said.until else ""
            return Wait(f"its calendar has no training time now{begins}", said.until)
    return None


def look_ahead(project: Project) -> None:
    """Look at a project's calendar before any row is locked: that may take seconds."""
    policy = read_training_policy(project)
    if policy.calendar:
        with suppress(CalendarError):
            ask_calendar(policy.calendar, now=timezone.now().astimezone(policy.zone))


def why_wait(run: TrainingRun, *, now: datetime | None = None, may_look: bool = True) -> Wait | None:
    """What keeps a queued run from being sent now, the box aside; None when nothing does."""
    now = now or timezone.now()
    if run.project.archived_at is not None:
        return Wait("its project is archived")
    policy = read_training_policy(run.project)
    if trouble := find_trouble(run.worker_id, end_user=run.end_user):
        return Wait(f"what serves is not what should: {trouble}")
    if words := rebuilding.find_hold(run):
        return Wait(words)
    if run.not_before is not None and run.not_before > now:
        return Wait(f"not before {run.not_before:%Y-%m-%d %H:%M %Z}", run.not_before)
    if (closed := why_closed(policy, now=now, may_look=may_look)) is not None:
        return closed
    if policy.quiet_s:
        last = Exchange.objects.filter(project_id=run.project_id).order_by("-created_at").first()
        if last is not None and (until := last.created_at + timedelta(seconds=policy.quiet_s)) > now:
            return Wait(f"the project was at work; it trains after {policy.quiet_s:,.0f} s of quiet", until)
    if policy.gpu_s_per_day is not None:
        used = measure_use([run.project_id]).get(run.project_id, 0.0)
        if used >= policy.gpu_s_per_day:
            return Wait(f"{used:,.0f} of {policy.gpu_s_per_day:,.0f} seconds of training in 24 hours are used up")
    most = policy.runs_per_day if run.begun_at is None else None
    if most is not None and (count := count_begun(run.project_id)) >= most:
        return Wait(f"{count} of {most} runs in 24 hours are used up")
    return None


def count_begun(project_id: int) -> int:
    """Runs of a project that were sent for the first time in the last 24 hours; one that is sent again is none more."""
    return TrainingRun.objects.filter(project_id=project_id, begun_at__gte=Now() - DAY).count()


def admit(run: TrainingRun) -> bool:
    """Give a queued run a place on the box, or write on it what it waits for. Belongs in a transaction."""
    wait = why_wait(run, may_look=False)
    if wait is None and not take_place(run):
        held = ", ".join(f"run {pk}" for pk in _busy(run.backend).values_list("run_id", flat=True).order_by("run_id"))
        wait = Wait(f"waits for a free training machine: {held} has it")
    words = wait.words[:300] if wait else ""
    if words != run.waiting_reason:
        TrainingRun.objects.filter(pk=run.pk).update(waiting_reason=words)
    return wait is None


# --- places ----------------------------------------------------------------------------------------------------------


def take_place(run: TrainingRun) -> bool:
    """Lease a place of the run's backend, or renew the one it has. One place, one run, decided by the row.

    A place is busy while its run is queued or trains and its lease has not run out (database time).
    """
    places = ELSEWHERE_SLOTS.get(run.backend, int(settings.TENTALIS["TRAINING_PLACES"]))
    names = [f"{run.backend}-{number}" for number in range(places)]
    GpuLease.objects.bulk_create([GpuLease(slot=name) for name in names], ignore_conflicts=True)
    with transaction.atomic():
        mine = GpuLease.objects.select_for_update().filter(run=run).first()
        if mine is None:
            busy = _busy(run.backend).values("pk")
            free = GpuLease.objects.filter(slot__in=names).exclude(pk__in=busy).order_by("slot")
            mine = free.select_for_update(skip_locked=True).first()
            if mine is not None and _busy(run.backend).filter(pk=mine.pk).exists():
                mine = None  # it was given away between this look and its lock: only what is read after that is true
        if mine is None:
            return False
        GpuLease.objects.filter(pk=mine.pk).update(run=run, expires_at=Now() + _lease_time())
    return True


def leave_place(run_id: int) -> None:
    """The run is not sent after all: another may be."""
    GpuLease.objects.filter(run_id=run_id).update(run=None, expires_at=None)


def renew_place(run_id: int) -> None:
    """The run showed a sign of life."""
    GpuLease.objects.filter(run_id=run_id).update(expires_at=Now() + _lease_time())


def _busy(backend: str) -> QuerySet[GpuLease]:
    at_work = Q(run__state__in=[State.QUEUED, State.RUNNING], expires_at__gt=Now())
    return GpuLease.objects.filter(at_work, slot__startswith=f"{backend}-")


def _lease_time() -> timedelta:
    return timedelta(seconds=3 * settings.TENTALIS["RUN_SILENCE_SECONDS"])


# --- fairness --------------------------------------------------------------------------------------------------------


def measure_use(project_ids: Iterable[int]) -> dict[int, float]:
    """Seconds that each project trained in the last 24 hours: every attempt of its runs, those under way included."""
    runs = TrainingRun.objects.filter(project_id__in=list(project_ids)).exclude(started_at=None, past_attempts=[])
    lately = runs.filter(Q(finished_at=None) | Q(finished_at__gt=Now() - DAY)).annotate(now=Now()).order_by()
    columns = ("project_id", "state", "started_at", "finished_at", "past_attempts", "now")
    used: dict[int, float] = defaultdict(float)
    for project_id, state, started_at, finished_at, past_attempts, now in lately.values_list(*columns):
        attempts = [[datetime.fromisoformat(time) for time in attempt] for attempt in past_attempts]
        if started_at and (over := now if state == State.RUNNING else finished_at):
            attempts.append([started_at, over])
        for began, ended in attempts:
            used[project_id] += max(0.0, (ended - max(began, now - DAY)).total_seconds())
    return dict(used)


def keep_attempt(run: TrainingRun, *, ended: datetime | None) -> list[list[str]]:
    """`past_attempts` of a run that is about to wait for its next one: the present one too, where it began and ended,
    and none that ended before the last 24 hours."""
    present = [[run.started_at.isoformat(), ended.isoformat()]] if run.started_at and ended else []
    since = timezone.now() - DAY
    return [[began, over] for began, over in [*run.past_attempts, *present] if datetime.fromisoformat(over) > since]


def find_waiting_workers() -> list[int]:
    """Workers with runs that wait, in the order in which a free place is offered to them."""
    queued = TrainingRun.objects.filter(state=State.QUEUED).select_related("project").order_by("-priority", "pk")
    first: dict[int, TrainingRun] = {}
    for run in queued.defer("spec", "metrics", "recipe"):
        first.setdefault(run.worker_id, run)
    used = measure_use({run.project_id for run in first.values()})
    waiting = [
        Waiting(
            run_id=run.pk,
            project_id=run.project_id,
            priority=run.priority,
            used_s=used.get(run.project_id, 0.0),
            share=read_training_policy(run.project).share,
        )
        for run in first.values()
    ]
    workers = {run.pk: run.worker_id for run in first.values()}
    return [workers[run_id] for run_id in order_fairly(waiting)]


OUTSIDE_HOURS = "paused by the schedule: the project's training hours are over"


def find_resumable() -> list[TrainingRun]:
    """Runs that the schedule paused and whose project may train again."""
    paused = TrainingRun.objects.filter(state=State.PAUSED, waiting_reason__contains=OUTSIDE_HOURS)
    now = timezone.now()
    return [
        run
        for run in paused.select_related("project")
        if why_closed(read_training_policy(run.project), now=now) is None
    ]


def find_overdue() -> list[TrainingRun]:
    """Runs that train although their project's hours are over, and whose project wants them paused then."""
    running = TrainingRun.objects.filter(TRAINS, project__training_policy__pauses_outside=True)
    now = timezone.now()
    return [
        run
        for run in running.select_related("project", "worker")
        if why_closed(read_training_policy(run.project), now=now) is not None
    ]
