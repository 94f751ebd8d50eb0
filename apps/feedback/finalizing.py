"""Finalize feedback when its undo window has ended: what follows from it then."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Max
from django.db.models.functions import Now

from apps.feedback.comparing import compare
from apps.feedback.gold import find_all_expected
from apps.feedback.models import Feedback, ReviewDraft


def note_standing(feedback: Sequence[Feedback]) -> None:
    """Let what was said tell how its authors judge, in the running transaction. Called once a feedback."""
    compare(feedback, expected=find_all_expected(feedback))


def find_undo_until(task_ids: Iterable[int]) -> dict[int, datetime]:
    """Task id -> when the last judgement of it that can be undone cannot be any more; none of the others."""
    rows = Feedback.objects.standing().filter(task__in=task_ids, undo_until__gt=Now())
    found = rows.order_by().values_list("task").annotate(last=Max("undo_until"))
    return {task: last for task, last in found if last is not None}


CHUNK = 50


def settle_feedback(*, limit: int = 500) -> int:
    """Let feedback stand whose time for an undo is over; what its author had typed is dropped with it.

    In transactions of `CHUNK`, so that a long queue of them keeps nobody waiting for its locks, and what one of them
    breaks on takes no more than its own with it.

    Returns:
        How many; at most `limit`.
    """
    settled = 0
    while settled < limit:
        found = _settle_some(min(CHUNK, limit - settled))
        settled += found
        if found < CHUNK:
            break
    return settled


def _settle_some(limit: int) -> int:
    with transaction.atomic():
        due = list(
            Feedback.objects.select_for_update(of=("self",), skip_locked=True)
            .select_related("review")
            .filter(undo_until__lte=Now())
            .order_by("undo_until")[:limit]
        )
        Feedback.objects.filter(pk__in=[feedback.pk for feedback in due]).update(undo_until=None)
        for feedback in due:
            feedback.undo_until = None
            if feedback.source == Feedback.Source.HUMAN:
                name = feedback.author.partition(":")[2]
                ReviewDraft.objects.filter(review=feedback.review_id, user__username=name).delete()
        note_standing([feedback for feedback in due if feedback.retracted_at is None])
    return len(due)
