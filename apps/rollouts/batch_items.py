"""Unlearn an erased person (GDPR): move what is left of a batch into a batch of its own, to train on again."""

from django.db.models import Max
from django.db.models.functions import Now

from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.rollouts.models import Batch, Demonstration, PreferencePair, TrainingUse
from apps.workers.models import Worker


def move_remaining_items(batch: Batch, *, by: str) -> Batch | None:
    """Move what is left of a batch into a new one that is full, in the running transaction; each keeps its one place.

    Returns:
        None where nothing that it teaches is left.
    """
    Worker.objects.select_for_update(no_key=True).only("pk").get(pk=batch.worker_id)
    if not batch.items().exists():
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
        task_count=batch.task_ids().distinct().count(),
        rollout_count=TrainingUse.objects.filter(batch=batch).count(),
        closed_at=Now(),
    )
    for kept in (TrainingUse.objects, PreferencePair.objects, Demonstration.objects):
        kept.filter(batch=batch).update(batch=taker)
    payload = {"tasks": taker.task_count, "rollouts": taker.rollout_count, "takes_over": batch.pk}
    record(Kind.BATCH_CLOSED, subject=taker, by=by, payload=payload)
    return taker
