"""Trainings that are done again without an erased person (`apps.erasure`): in which order, and what each continues.

They keep the old order, each from what the one before it made. The last of a line is gated and swapped in like any
adapter.
"""

from typing import Any

from django.db.models import Q, QuerySet

from apps.adapters.models import Adapter, Deployment
from apps.adapters.selectors import find_deployed
from apps.training.models import TrainingRun

State = TrainingRun.State
OPEN = (State.QUEUED, State.RUNNING, State.PAUSED)


def find_parent(run: TrainingRun) -> Adapter | None:
    """What a run continues: what serves its line, or, of a line that is rebuilt, what stands for its old parent.

    A training that failed, or was refused or cancelled, is left out: the next continues what that would have.
    """
    if run.rebuilds_id is None:
        return find_deployed(run.worker, end_user=run.end_user)
    adapter = find_first(run).parent
    while adapter is not None and adapter.barred:
        again = _last(adapter.run_id)
        made = Adapter.objects.filter(run_id=again.pk).first() if again is not None else None
        is_fit = made is not None and made.state != Adapter.State.REFUSED
        adapter = made if is_fit else adapter.parent
    return adapter


def find_latest_version(run: TrainingRun) -> int | None:
    """The version that the run which is done again continued: of a later one it took no rollouts; None for any other.

    What this one continues may be earlier, where a step of the line is missing; log-probs are exact all the same.
    """
    if run.rebuilds_id is None:
        return None
    before = find_first(run).parent
    return before.line_version if before is not None else 0


def find_unfinished(run: TrainingRun) -> QuerySet[TrainingRun]:
    """Trainings of a run's line that are to be done again and are not yet, itself aside, in their order."""
    policies = TrainingRun.objects.filter(purpose=TrainingRun.Purpose.POLICY)
    line = policies.filter(worker=run.worker_id, end_user__in={run.end_user, ""})
    return line.filter(state__in=OPEN, rebuilds__isnull=False).exclude(pk=run.pk).order_by("pk")


def find_hold(run: TrainingRun) -> str:
    """What of a rebuild keeps a run from being sent now, in words; "" when nothing does."""
    if run.purpose != TrainingRun.Purpose.POLICY:
        return ""
    unfinished = find_unfinished(run)
    if run.rebuilds_id is not None:
        unfinished = unfinished.filter(pk__lt=run.pk)
    if (other := unfinished.first()) is not None:
        return f"run {other.pk} comes first: its line is made again without somebody who was forgotten"
    parent = find_parent(run)
    if parent is not None and parent.barred:
        return f"{parent.name} serves, and {parent.barred}: roll it back or put another into service first"
    return ""


def find_rebuilt() -> list[Adapter]:
    """Adapters that end a rebuilt line and were not judged yet: of such a line only the last goes to the gate."""
    found = []
    waiting = Adapter.objects.filter(is_rebuilt=True, state=Adapter.State.CANDIDATE, barred="", verdicts=None)
    policies = TrainingRun.objects.filter(purpose=TrainingRun.Purpose.POLICY)
    for line in waiting.order_by().values("worker_id", "end_user").distinct():
        if not policies.filter(**line, state__in=OPEN, rebuilds__isnull=False).exists():
            newest = Adapter.objects.filter(**line, is_rebuilt=True).order_by("-pk").first()
            if newest is not None and newest in waiting:
                found.append(newest)
    return found


def find_deployments_of_blocked_adapters() -> QuerySet[Deployment]:
    """Deployments of projects that want nothing barred to serve, where something barred does."""
    policy: dict[str, Any] = {"worker__project__training_policy__serves_until_rebuilt": False}
    at_work = Deployment.objects.filter(~Q(adapter__barred=""), adapter__isnull=False, **policy)
    return at_work.select_related("adapter", "previous", "worker__provider")


def find_first(run: TrainingRun) -> TrainingRun:
    """The run that was done again, however often it was."""
    while run.rebuilds is not None:
        run = run.rebuilds
    return run


def _last(run_id: int | None) -> TrainingRun | None:
    """The newest run in the place of one; None where it was not done again."""
    run = again = TrainingRun.objects.filter(pk=run_id or 0).first()
    while again is not None:
        run, again = again, TrainingRun.objects.filter(rebuilds=again).first()
    return run if run is not None and run.pk != run_id else None
