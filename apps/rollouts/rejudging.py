"""What becomes of a task's rollouts when a judgement of it is taken back."""

from dataclasses import dataclass

from django.db.models import F

from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.evals.holding import is_held_out
from apps.feedback.selectors import effective_judgement, find_hint
from apps.rollouts.models import Batch, Rollout, TrainingUse
from apps.rollouts.pairing import Judged, drop_items, note_items
from apps.rollouts.services import find_line, load_attempts, make_rollout
from apps.tasks.models import Task

JUDGED = ("hint_id", "hint_weight", "is_usable", "unusable_reason", "reward", "reward_source", "weight", "steps")
FIELDS = ("hint", *JUDGED[1:])


@dataclass(frozen=True, kw_only=True)
class Rejudged:
    """What changed.

    Args:
        changed: rollouts that wait in an open batch, or are in none, and were judged anew.
        excluded: those of them that left their batch, for nobody judges them any more.
        used: closed batches that hold rollouts which would be judged otherwise now; those stay as they are.
    """

    changed: int = 0
    excluded: int = 0
    used: tuple[Batch, ...] = ()


def rejudge_rollouts(task: Task, *, by: str) -> Rejudged:
    """Judge a task's rollouts anew, in the running transaction, the task's row locked.

    A rollout that is usable only now enters no batch: its task had its turn. Pairs and demonstrations that no batch
    holds are made anew.
    """
    before = {
        rollout.attempt_id: rollout for rollout in Rollout.objects.filter(task=task).select_related("training_use")
    }
    if not before:
        return Rejudged()
    holding = Batch.objects.filter(uses__rollout__task=task).values("pk")
    batches = {
        batch.pk: batch for batch in Batch.objects.select_for_update(no_key=True).filter(pk__in=holding).order_by("pk")
    }
    judgements, taught, is_kept = effective_judgement(task), find_hint(task), is_held_out(task)
    changed, left, used = [], [], {}
    attempts = load_attempts([task])[task.pk]
    judged = []
    for attempt in attempts:
        old = before.get(attempt.pk)
        if old is None:
            continue
        new = make_rollout(task, attempt, judgements.get(attempt.pk), taught, is_held_out=is_kept)
        judged.append(new)
        if all(getattr(old, name) == getattr(new, name) for name in JUDGED):
            continue
        use = getattr(old, "training_use", None)
        if use is not None and batches[use.batch_id].state != Batch.State.OPEN:
            used[use.batch_id] = batches[use.batch_id]
            continue
        for name in FIELDS:
            setattr(old, name, getattr(new, name))
        changed.append(old)
        left += [use] if use is not None and not new.is_usable else []
    drop_items(task)
    note_items([Judged(task, attempts, judged, is_kept)], {one.pk: find_line(one) for one in attempts})
    Rollout.objects.bulk_update(changed, FIELDS)
    _leave(task, left)
    if changed:
        payload = {"rejudged": len(changed), "excluded": len(left)}
        record(Kind.ROLLOUTS_BUILT, subject=task, by=by, payload=payload)
    return Rejudged(changed=len(changed), excluded=len(left), used=tuple(used.values()))


def _leave(task: Task, uses: list[TrainingUse]) -> None:
    """Take rollouts out of the open batch they are in."""
    for batch_id in {use.batch_id for use in uses}:
        gone = [use.rollout_id for use in uses if use.batch_id == batch_id]
        TrainingUse.objects.filter(rollout__in=gone).delete()
        is_out = not TrainingUse.objects.filter(batch=batch_id, rollout__task=task).exists()
        Batch.objects.filter(pk=batch_id).update(
            rollout_count=F("rollout_count") - len(gone), task_count=F("task_count") - int(is_out)
        )
