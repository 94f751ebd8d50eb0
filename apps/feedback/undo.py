"""Undo feedback: as if it had not been while that is possible, and afterwards so that it counts for nothing."""

from django.db import transaction
from django.db.models.functions import Now

from apps.accounts.models import Role, User
from apps.accounts.services import require_role
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.texts import require_text
from apps.feedback.claims import LEASE
from apps.feedback.comparing import forget
from apps.feedback.drafts import reopen_draft
from apps.feedback.errors import CannotUndoError
from apps.feedback.gold import end_gold
from apps.feedback.judgement import read_judgement
from apps.feedback.models import Feedback, Review, ReviewDraft
from apps.feedback.rights import MANAGERS, REVIEWERS
from apps.tasks.models import Task
from tentalis.core.field_limits import MAX_REASON_CHARS

UNDONE = "undone"


def undo_feedback(feedback: Feedback, *, by: User, is_stopped: bool) -> Review:
    """Put everything back to where it stood before the feedback was given, its author holding the review again.

    A second opinion that was asked for because of it, and that nobody has open, is expired.

    Args:
        is_stopped: the caller has stopped the task's learning, in the running transaction.
    Returns:
        The review, open, with its draft.
    Raises:
        CannotUndoError: another's feedback, too late, taken back already, or somebody has the second opinion open.
    """
    if feedback.author != by.handle:
        raise CannotUndoError(f"feedback {feedback.pk} is {feedback.author}'s; only they can undo it")
    with transaction.atomic():
        task = Task.objects.select_for_update(of=("self",)).select_related("project").get(pk=feedback.task_id)
        row = _lock_undoable(feedback)
        review = Review.objects.select_for_update(of=("self",)).get(given=row)
        if review.purpose != Review.Purpose.GOLD:
            _expire_second_opinion(task, by)
        _retract(row, by, UNDONE)
        reopen(review, by=by, is_claimed=True)
        reopen_draft(review, by, read_judgement(row))
        record(Kind.FEEDBACK_UNDONE, subject=row, by=by.handle, payload={"task": task.pk, "review": review.pk})
        if review.purpose != Review.Purpose.GOLD and task.state != Task.State.IN_REVIEW:
            if not is_stopped:
                raise CannotUndoError(f"task {task.pk} is {task.state} already; retract instead")
            move(task, Task.State.IN_REVIEW, by=by.handle, payload={"reason": "a judgement was undone"})
    review.refresh_from_db()
    return review


def reopen(review: Review, *, by: User, is_claimed: bool) -> None:
    """Open a closed review again, due no sooner than a lease from now."""
    holder = (
        {"claimed_by": by, "lease_until": Now() + LEASE} if is_claimed else {"claimed_by": None, "lease_until": None}
    )
    move(review, Review.State.OPEN, by=by.handle, payload={"task": review.task_id}, closed_at=None, **holder)
    Review.objects.filter(pk=review.pk, due_at__lt=Now() + LEASE).update(due_at=Now() + LEASE)


def retract_feedback(feedback: Feedback, *, by: User, reason: str, needs_right: bool = True) -> bool:
    """Let feedback count for nothing from now on. What it has done is for the caller to find out and to audit.

    Args:
        needs_right: False where a rule retracts and not the person.
    Returns:
        Whether it counted until now.
    Raises:
        NotFoundError, NotAllowedError: `by` is neither its author nor a manager.
        BadInputError: no reason, or too long a one.
    """
    if needs_right:
        roles = (*REVIEWERS, Role.AGENT) if feedback.author == by.handle else MANAGERS
        require_role(by, feedback.project, *roles)
    reason = require_text("reason", reason, MAX_REASON_CHARS)
    if feedback.review_id is not None and feedback.undo_until is not None:  # what an undo would have brought back
        name = feedback.author.partition(":")[2]
        ReviewDraft.objects.filter(review=feedback.review_id, user__username=name).delete()
    return _retract(feedback, by, reason)


def _retract(feedback: Feedback, by: User, reason: str) -> bool:
    changed = (
        Feedback.objects.standing()
        .filter(pk=feedback.pk)
        .update(retracted_at=Now(), retracted_by=by.handle, retract_reason=reason, undo_until=None)
    )
    feedback.refresh_from_db(fields=["retracted_at", "retracted_by", "retract_reason", "undo_until"])
    if changed:
        forget([feedback])
        end_gold([feedback], by=by.handle)
    return bool(changed)


def _lock_undoable(feedback: Feedback) -> Feedback:
    row = Feedback.objects.select_for_update(of=("self",)).select_related("review").get(pk=feedback.pk)
    if row.retracted_at is not None:
        raise CannotUndoError(f"feedback {row.pk} was taken back already")
    if not Feedback.objects.filter(pk=row.pk, undo_until__gt=Now(), review__isnull=False).exists():
        raise CannotUndoError(f"feedback {row.pk} can no longer be undone; it can be retracted")
    return row


def _expire_second_opinion(task: Task, by: User) -> None:
    """Raises CannotUndoError where another review of the task stands in the way of this one."""
    waiting = Review.objects.select_for_update(of=("self",)).filter(
        task=task, audience=Review.Audience.HUMAN, state=Review.State.OPEN
    )
    for review in waiting.exclude(purpose=Review.Purpose.GOLD):
        is_held = Review.objects.filter(pk=review.pk, claimed_by__isnull=False, lease_until__gte=Now()).exists()
        if is_held or review.purpose not in (Review.Purpose.SECOND, Review.Purpose.PAIR):
            purpose = review.get_purpose_display().lower()
            raise CannotUndoError(f"task {task.pk}: review {review.pk} ({purpose}) is under way; retract instead")
        payload = {"task": task.pk, "then": "the judgement before it was undone"}
        move(review, Review.State.EXPIRED, by=by.handle, payload=payload, closed_at=Now())
