"""A canary's trial: begun by a person or by the project's policy, watched, then promoted or taken back."""

import logging

from django.db import transaction
from django.db.models import Avg, Case, Count, Exists, F, Max, OuterRef, Q, QuerySet, Value, Variance, When
from django.db.models.functions import Coalesce

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.adapters import canary, permitted
from apps.adapters import services as adapters
from apps.adapters.models import Adapter, Deployment
from apps.adapters.selectors import find_deployment, goes_to_canary
from apps.adapters.serving import LOAD_S, serve
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.audit.services import move
from apps.base.errors import TentalisError
from apps.tasks.models import Attempt, Task
from tentalis.core.learning.canary_verdict import Arm, CanaryOutcome, CanaryReading, judge_canary
from tentalis.core.learning.gate import GatePolicy
from tentalis.outbound.scopes import CancelScope

logger = logging.getLogger(__name__)

BY = "canary"
MOST_FAILURES = 500
WORKING = ("tasks.work", "tasks.play")
"""Links at which a task's attempts are made."""


def start_canary(*, adapter: Adapter, percent: int, by: User) -> Deployment:
    """Try an adapter on a share of its worker's new tasks.

    Args:
        percent: of the tasks, from 1 to 50.
    Raises:
        BadInputError, IllegalMoveError, ConflictError: it cannot be tried so, or another one is.
        WrongAdapterServedError: the server does not answer with it.
    """
    require_right(by, adapter.project, Right.ADAPTERS_WRITE)
    return _start(adapter, percent=percent, by=by.handle)


def change_share(*, deployment: Deployment, percent: int, by: User) -> Deployment:
    """Give a trial another share of the new tasks; what was seen so far counts no more.

    Raises:
        BadInputError, ConflictError: it cannot be, or the trial is over.
    """
    require_right(by, deployment.worker.project, Right.ADAPTERS_WRITE)
    last = _last_task(deployment.worker.project_id)
    return canary.change_share(deployment, percent=percent, after_task=last, by=by.handle)


def watch_canaries() -> int:
    """Start what the policies want tried, end every trial of which enough was seen, and put into service what waited
    for such an end. Returns how many moved.
    """
    moved = 0
    for adapter in _find_untried():
        try:
            with CancelScope(LOAD_S):
                _start_by_policy(adapter)
            moved += 1
        except TentalisError as error:
            logger.warning("%s cannot be tried: %s", adapter.name, error)
    at_work = Deployment.objects.filter(canary__isnull=False)
    for deployment in at_work.select_related("canary__worker__provider", "adapter", "worker__project"):
        try:
            with CancelScope(LOAD_S):
                moved += _end_when_clear(deployment)
        except TentalisError as error:
            logger.warning("the canary of %s cannot be ended: %s", deployment.worker.name, error)
    for adapter in adapters.find_held():
        try:
            with CancelScope(LOAD_S):
                adapters.promote_verified(adapter.pk, by="gate")
            moved += 1
        except TentalisError as error:
            logger.warning("%s, which waited for a trial, cannot serve: %s", adapter.name, error)
    return moved


def read_canary(deployment: Deployment) -> CanaryReading:
    """What its tasks say so far, against those that what serves did in the same time."""
    margin = GatePolicy.from_json(deployment.worker.project.gate_policy).margin
    failed = _count_failures(deployment)
    return judge_canary(
        _measure(deployment, deployment.adapter, failures=failed[False]),
        _measure(deployment, deployment.canary, failures=failed[True]),
        margin=margin,
    )


def _start(adapter: Adapter, *, percent: int, by: str) -> Deployment:
    canary.require_triable(adapter, percent=percent)
    serve(adapter)
    return canary.open_canary(adapter, percent=percent, after_task=_last_task(adapter.project_id), by=by)


def _start_by_policy(adapter: Adapter) -> None:
    """Try an adapter; or have a person look at it first, where what it was found safe beside was taken back."""
    percent = GatePolicy.from_json(adapter.project.gate_policy).canary_percent
    canary.require_triable(adapter, percent=percent)
    serve(adapter)
    with transaction.atomic():
        if words := adapters.find_taken_back(adapter):
            adapters.quarantine(adapter, reason=words, by=BY)
        else:
            canary.open_canary(adapter, percent=percent, after_task=_last_task(adapter.project_id), by=BY)


def _last_task(project_id: int) -> int:
    return Task.objects.filter(project_id=project_id).aggregate(last=Max("pk"))["last"] or 0


def _end_when_clear(deployment: Deployment) -> bool:
    adapter = deployment.canary
    assert adapter is not None
    adapter.refresh_from_db(fields=["state", "barred"])
    if words := permitted.why_not(adapter, "promoted"):
        canary.end_canary(deployment, outcome="stopped", reason=words, by=BY)
        return True
    reading = read_canary(deployment)
    if reading.outcome is CanaryOutcome.HARM:
        with transaction.atomic():
            canary.end_canary(deployment, outcome="harm", reason=reading.words, by=BY)
            if canary.look_again(adapter).state in {Adapter.State.CANDIDATE, Adapter.State.VERIFIED}:
                move(adapter, Adapter.State.REFUSED, by=BY, payload={"words": reading.words})
        return True
    canary.note_reading(deployment, reading.words)
    if reading.outcome is CanaryOutcome.SAFE:
        adapters.promote_tried(deployment, by=BY)
        return True
    return False


def _find_untried() -> list[Adapter]:
    """Adapters that wait for their trial: found safe, newer than what serves, never tried, the newest of a worker."""
    waiting = Adapter.objects.filter(
        state=Adapter.State.VERIFIED,
        project__gate_policy__canary_percent__gte=1,
        end_user="",
        worker__learns_with=None,  # whose own line is not asked
    )
    newest: dict[int, Adapter] = {}
    for adapter in waiting.select_related("worker__provider", "project").order_by("pk"):
        deployment = find_deployment(adapter.worker)
        served = deployment.adapter if deployment else None
        is_free = deployment is None or deployment.canary_id is None
        if is_free and (served is None or adapter.version > served.version):
            newest[adapter.worker_id] = adapter
    tried = AuditEntry.objects.filter(
        subject_type="adapter", subject_id__in=[one.pk for one in newest.values()], kind=Kind.CANARY_STARTED
    ).values_list("subject_id", flat=True)
    return [adapter for adapter in newest.values() if adapter.pk not in set(tried)]


def _new_tasks(deployment: Deployment) -> QuerySet[Task]:
    tasks = Task.objects.filter(project_id=deployment.worker.project_id, pk__gt=deployment.canary_after_task)
    by_line = Q(worker=deployment.worker_id) | Q(worker__learns_with=deployment.worker_id)
    return tasks.filter(by_line, parent=None)


def _measure(deployment: Deployment, adapter: Adapter | None, *, failures: int) -> Arm:
    """A task's score is the mean over its attempts: what was verified, else what was scored, 0 for one that failed."""
    worth = Case(When(state=Attempt.State.FAILED, then=Value(0.0)), default=Coalesce("outcome", "score"))
    attempts = Attempt.objects.filter(task__in=_new_tasks(deployment)).filter(
        Q(adapter=None) if adapter is None else Q(adapter=adapter)
    )
    # an unscored attempt has no worth yet, and so has its task: the rest of the group is not taken for the whole
    by_task = attempts.order_by().values("task_id").annotate(worth=Avg(worth), known=Count(worth), all=Count("pk"))
    found = by_task.filter(known=F("all")).aggregate(n=Count("worth"), mean=Avg("worth"), variance=Variance("worth"))
    count, mean, variance = found["n"], found["mean"] or 0.0, found["variance"] or 0.0
    total = count + failures
    if not failures:
        return Arm(tasks=total, mean=mean, variance=variance)
    whole = mean * count / total
    return Arm(tasks=total, mean=whole, variance=(variance + mean * mean) * count / total - whole * whole)


def _count_failures(deployment: Deployment) -> dict[bool, int]:
    """Tasks that got no answer at all, by whether they were the canary's: each counts as a score of 0. Those whose
    attempts all came to an end, and failed, are measured by these."""
    failed = _new_tasks(deployment).filter(state=Task.State.FAILED, failed_link__in=WORKING).order_by("-pk")
    failed = failed.exclude(Exists(Attempt.objects.filter(task=OuterRef("pk"))))
    sides = [goes_to_canary(deployment, pk) for pk in failed.values_list("pk", flat=True)[:MOST_FAILURES]]
    return {True: sides.count(True), False: sides.count(False)}
