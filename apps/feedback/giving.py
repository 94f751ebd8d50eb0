"""Feedback: given in a review, which it closes, or on a task without one."""

from collections.abc import Sequence

from django.db import transaction
from django.db.models.functions import Now

from apps.accounts.models import Role, User
from apps.accounts.services import require_role
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.errors import BadInputError
from apps.feedback.claims import REVIEWERS, lock_review
from apps.feedback.models import Feedback, Review
from apps.feedback.opening import decide_reviewers, open_human_review
from apps.feedback.rules import validate_review_policy
from apps.feedback.words import StepWord, Words, store_feedback
from apps.tasks.models import Task

OUTSIDE_TRUST = 0.5
"""How far an app's word for its user is trusted, unless it says less."""
MAX_REASON_CHARS = 300


def give_feedback(
    *,
    review: Review,
    by: User,
    score: float | None = None,
    text: str = "",
    steps: Sequence[StepWord] = (),
    preferred_attempt: int | None = None,
    edited_answer: str = "",
) -> Feedback:
    """Close a review with a person's judgement; the last one moves the task on to learning.

    Args:
        preferred_attempt: index of the best attempt.
    Raises:
        NotFoundError, NotAllowedError, NotYourReviewError: `by` may not.
        ReviewTakenError: somebody else has it open.
        IllegalMoveError: somebody else closed it first.
        BadInputError: every fault, by field.
    """
    words = Words(score=score, text=text, steps=steps, preferred_attempt=preferred_attempt, edited_answer=edited_answer)
    require_role(by, review.project, *REVIEWERS)
    with transaction.atomic():
        task, row = lock_review(review, by)
        move(row, Review.State.CLOSED, by=by.handle, payload={"task": task.pk}, closed_at=Now())
        feedback = store_feedback(task, words, review=row, source=Feedback.Source.HUMAN, author=by.handle)
        _record(feedback, by)
        carry_on(task, by=by.handle)
    return feedback


def give_task_feedback(
    *,
    task: Task,
    by: User,
    score: float | None = None,
    text: str = "",
    steps: Sequence[StepWord] = (),
    preferred_attempt: int | None = None,
    edited_answer: str = "",
    trust: float | None = None,
) -> Feedback:
    """Keep feedback that nobody asked for, whatever the task's state: a person's, or an agent's or app's for its user.

    Args:
        trust: weight of an outside word, in [0, 1]; a person's is 1.
    Raises:
        NotFoundError, NotAllowedError: `by` may not.
        BadInputError: every fault, by field.
    """
    require_role(by, task.project, *REVIEWERS, Role.AGENT)
    source = Feedback.Source.OUTSIDE if by.is_agent else Feedback.Source.HUMAN
    if trust is not None and (source == Feedback.Source.HUMAN or not 0 <= trust <= 1):
        message = f"wanted 0 to 1, from an agent or app only, found {trust!r}"
        raise BadInputError(f"trust: {message}", errors={"trust": [message]})
    weight = 1.0 if source == Feedback.Source.HUMAN else OUTSIDE_TRUST if trust is None else trust
    words = Words(score=score, text=text, steps=steps, preferred_attempt=preferred_attempt, edited_answer=edited_answer)
    with transaction.atomic():
        feedback = store_feedback(task, words, source=source, author=by.handle, trust=weight)
        _record(feedback, by)
    return feedback


def skip_review(*, review: Review, by: User, reason: str) -> Review:
    """Close a review without a judgement; the task goes on without it.

    Raises:
        As `give_feedback`.
    """
    require_role(by, review.project, *REVIEWERS)
    if not reason.strip() or len(reason) > MAX_REASON_CHARS or "\x00" in reason:
        message = f"wanted 1 to {MAX_REASON_CHARS} characters without NUL, found {len(reason)}"
        raise BadInputError(f"reason: {message}", errors={"reason": [message]})
    with transaction.atomic():
        task, row = lock_review(review, by)
        payload = {"task": task.pk, "reason": reason}
        move(row, Review.State.SKIPPED, by=by.handle, payload=payload, closed_at=Now())
        carry_on(task, by=by.handle)
    return row


def carry_on(task: Task, *, by: str) -> bool:
    """Move a task that waits for no review any more on to learning, in the running transaction, its row locked.

    Where the policy wants a second person and only one has spoken, a second review opens instead.

    Returns:
        Whether it went on to learning.
    """
    if task.state != Task.State.IN_REVIEW or task.reviews.filter(state=Review.State.OPEN).exists():
        return False
    rules = validate_review_policy(task.project.review_policy)
    decision = decide_reviewers(task, rules)
    asked = task.reviews.filter(audience=Review.Audience.HUMAN).count()
    if asked < decision.reviewers.count("human") and task.feedback.filter(source=Feedback.Source.HUMAN).exists():
        open_human_review(task, rules, reason=decision.reason, by=by)
        return False
    move(task, Task.State.LEARNING, by=by)
    return True


def _record(feedback: Feedback, by: User) -> None:
    payload = {
        "task": feedback.task_id,
        "review": feedback.review_id,
        "source": str(feedback.source),
        "score": feedback.score,
    }
    record(Kind.FEEDBACK_GIVEN, subject=feedback, by=by.handle, payload=payload)
