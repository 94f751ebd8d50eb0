"""What is left of a batch, when a part of it was forgotten, in a batch of its own."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Max, QuerySet
from django.db.models.functions import Now

from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.rollouts.models import Batch, Demonstration, PreferencePair, TrainingUse
from apps.workers.models import Worker

SIDES: Mapping[Batch.Kind, Sequence[str]] = {
    Batch.Kind.ROLLOUTS: ("attempt",),
    Batch.Kind.PAIRS: ("chosen", "rejected"),
    Batch.Kind.DEMONSTRATIONS: ("attempt",),
}
"""What a batch holds -> the fields of it that are attempts."""


def list_uses(batch: Batch) -> tuple[QuerySet[Any], str]:
    """The rows by which a batch holds what it teaches, and the field of theirs that leads to the task."""
    if batch.kind == Batch.Kind.PAIRS:
        return PreferencePair.objects.filter(batch=batch), "task"
    if batch.kind == Batch.Kind.DEMONSTRATIONS:
        return Demonstration.objects.filter(batch=batch), "task"
    return TrainingUse.objects.filter(batch=batch), "rollout__task"


def take_over(batch: Batch, *, by: str) -> Batch | None:
    """Move what is left of a batch into a new one that is full, in the running transaction; each keeps its one place.

    Returns:
        None where nothing that it teaches is left.
    """
    Worker.objects.select_for_update(no_key=True).only("pk").get(pk=batch.worker_id)
    uses, task = list_uses(batch)
    if not uses.exists():
        return None
    last = Batch.objects.filter(worker=batch.worker_id).aggregate(last=Max("number"))["last"] or 0
    taker = Batch.objects.create(
        project_id=batch.project_id,
        worker_id=batch.worker_id,
        end_user=batch.end_user,
        number=last + 1,
        kind=batch.kind,
        state=Batch.State.CLOSED,
        target_tasks=batch.target_tasks,
        task_count=uses.order_by().values(task).distinct().count(),
        rollout_count=TrainingUse.objects.filter(batch=batch).count(),
        closed_at=Now(),
    )
    for kept in (TrainingUse.objects, PreferencePair.objects, Demonstration.objects):
        kept.filter(batch=batch).update(batch=taker)
    payload = {"tasks": taker.task_count, "rollouts": taker.rollout_count, "takes_over": batch.pk}
    record(Kind.BATCH_CLOSED, subject=taker, by=by, payload=payload)
    return taker
