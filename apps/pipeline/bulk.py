"""Bulk judgements at work: chunk by chunk, each with where it came to, so that a killed process costs one chunk."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from apps.accounts.models import Project, User
from apps.feedback import services as feedback
from apps.feedback.models import BulkJudgement, Feedback
from apps.feedback.services import QueueFilter
from apps.outbox import services as outbox
from apps.outbox.registry import register_kind
from apps.pipeline import judging
from apps.rollouts.models import Batch

CHUNK = 250

register_kind("bulk", links=("pipeline.judge_bulk",))
register_kind("unbulk", links=("pipeline.undo_bulk",))


def start(
    *, project: Project, by: User, filters: QueueFilter, words: Mapping[str, Any], confirmed: int
) -> BulkJudgement:
    """Judge all that match, in the background."""
    with transaction.atomic():
        bulk = feedback.start_bulk(project=project, by=by, filters=filters, words=words, confirmed=confirmed)
        outbox.start("bulk", subject_id=bulk.pk, project_id=bulk.project_id)
    return bulk


def begin_undo(*, bulk: BulkJudgement, by: User) -> BulkJudgement:
    """Take back all of it that nothing has learnt from, in the background."""
    with transaction.atomic():
        bulk = feedback.begin_undo_bulk(bulk=bulk, by=by)
        outbox.start("unbulk", subject_id=bulk.pk, project_id=bulk.project_id)
    return bulk


def judge_all(bulk_id: int) -> None:
    """Judge until nothing is left, or somebody cancels."""
    while not judge_next(bulk_id):
        pass


def judge_next(bulk_id: int, *, limit: int = CHUNK) -> bool:
    """Judge one chunk; whether it was the last."""
    with transaction.atomic():
        chunk = feedback.judge_chunk(bulk_id, limit=limit)
        if chunk.learning:
            until = max(feedback.find_undo_until([task.pk for task in chunk.learning]).values(), default=None)
            subjects = [(task.pk, task.project_id) for task in chunk.learning]
            outbox.start_many("learn", subjects, run_after=until)
    return chunk.is_last


def undo_all(bulk_id: int) -> None:
    """Take back until nothing is left."""
    while not undo_next(bulk_id):
        pass


def undo_next(bulk_id: int, *, limit: int = CHUNK) -> bool:
    """Take back one chunk; whether it was the last.

    What no link has taken up is undone at once. The rest is retracted, but for what a closed batch holds.
    """
    with transaction.atomic():
        bulk, given = feedback.find_undoing(bulk_id, limit=limit)
        if bulk is None:
            return True
        if not given:
            feedback.end_undo_bulk(bulk)
            return True
        stopped = outbox.cancel_unclaimed_many(kind="learn", subject_ids=[one.task_id for one in given])
        feedback.undo_many(bulk, [one for one in given if one.task_id in stopped], stopped=stopped)
        rest = [one for one in given if one.task_id not in stopped]
        faults = [fault for one in rest if (fault := _retract(one, by=bulk.by))]
        feedback.note_undone(bulk, count=len(given) - len(faults), last_id=given[-1].pk, faults=faults)
    return False


def _retract(one: Feedback, *, by: User) -> dict[str, Any] | None:
    """Why it stays; None where it does not."""
    batch = Batch.objects.filter(uses__rollout__task=one.task_id, state=Batch.State.CLOSED).first()
    if batch is not None:
        return {"review": one.review_id, "reason": f"{batch} has it: what learnt from it stays"}
    judging.retract(one, by=by, reason="the bulk judgement was taken back", needs_right=False)
    return None
