"""Submit feedback: in a review, which it closes, or on a task without one."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Unpack

from django.db import transaction
from django.db.models.functions import Now

from apps.accounts.models import Role, User
from apps.accounts.services import require_role
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.errors import BadInputError
from apps.feedback.claims import lock_review
from apps.feedback.create_reviews import PAIR_REASON, decide_reviewers, open_human_review
from apps.feedback.drafts import close_draft
from apps.feedback.finalizing import note_standing
from apps.feedback.judgement import JudgementFields, JudgementInput, store_feedback
from apps.feedback.models import Feedback, Review
from apps.feedback.rights import REVIEWERS
from apps.feedback.rules import validate_review_policy
from apps.tasks.models import Task
from tentalis.core.checked import rule_of
from tentalis.core.review_policy import ReviewPolicy

OUTSIDE_TRUST = 0.5
"""How far an app's word for its user is trusted, unless it says less."""


def give_feedback(
    *,
    review: Review,
    by: User,
    undo_s: float = 0,
    typed: Mapping[str, Any] | None = None,
    **judgement: Unpack[JudgementFields],
) -> Feedback:
    """Close a review with a person's judgement; the last one moves the task on to learning.

    Said of a gold item it moves no task and trains nothing.

    Args:
        undo_s: for so long its author may take it back as if it had not been; that of an appeal stands at once.
        typed: the form's fields as they were sent, which an undo brings back as the draft.
        judgement: the fields of `JudgementInput`.
    Raises:
        NotFoundError, NotAllowedError, NotYourReviewError: `by` may not.
        ReviewTakenError: somebody else has it open.
        IllegalMoveError: somebody else closed it first.
        BadInputError: every fault, by field.
    """
    words = JudgementInput(**judgement)
    require_role(by, review.project, *REVIEWERS)
    undo = rule_of(ReviewPolicy, "undo_s")
    if not undo.low <= undo_s <= undo.high:
        raise BadInputError(f"undo_s: wanted {undo.low} to {undo.high} seconds, found {undo_s!r}")
    with transaction.atomic():
        task, row = lock_review(review, by)
        move(row, Review.State.CLOSED, by=by.handle, payload={"task": task.pk}, closed_at=Now())
        can_undo = undo_s > 0 and row.purpose != Review.Purpose.APPEAL
        undo_until = Now() + timedelta(seconds=undo_s) if can_undo else None
        feedback = store_feedback(
            task, words, review=row, source=Feedback.Source.HUMAN, author=by.handle, undo_until=undo_until
        )
        close_draft(row, by, kept=typed if can_undo else None, is_kept=can_undo)
        _record(feedback, by)
        if row.purpose != Review.Purpose.GOLD:
            carry_on(task, by=by.handle)
        if can_undo:
            feedback.refresh_from_db(fields=["undo_until"])
        else:
            note_standing([feedback])
    return feedback


def give_task_feedback(
    *, task: Task, by: User, trust: float | None = None, **judgement: Unpack[JudgementFields]
) -> Feedback:
    """Keep feedback that nobody asked for, whatever the task's state: a person's, or an agent's or app's for its user.

    Args:
        trust: weight of an outside word, in [0, 1]; a person's is 1.
        judgement: the fields of `JudgementInput`.
    Raises:
        NotFoundError, NotAllowedError: `by` may not.
        BadInputError: every fault, by field.
    """
    require_role(by, task.project, *REVIEWERS, Role.AGENT)
    source = Feedback.Source.OUTSIDE if by.is_agent else Feedback.Source.HUMAN
    if trust is not None and (source == Feedback.Source.HUMAN or not 0 <= trust <= 1):
        raise BadInputError.at("trust", f"wanted 0 to 1, from an agent or app only, found {trust!r}")
    weight = 1.0 if source == Feedback.Source.HUMAN else OUTSIDE_TRUST if trust is None else trust
    with transaction.atomic():
        feedback = store_feedback(task, JudgementInput(**judgement), source=source, author=by.handle, trust=weight)
        _record(feedback, by)
        note_standing([feedback])
    return feedback


def note_signal(
    *,
    task: Task,
    kind: str,
    trust: float,
    by: str,
    judge: Mapping[str, Any] | None = None,
    **judgement: Unpack[JudgementFields],
) -> Feedback:
    """Keep what a person's behaviour showed of a task, in the running transaction.

    Its author is `signal:<kind>`: how often a kind of signal is right is measured as it is of any machine.

    Args:
        trust: weight of this signal, in (0, 1].
        judge: as `Feedback.judge`; None: no model was asked.
    Raises:
        BadInputError: every fault, by field.
    """
    source = Feedback.Source.IMPLICIT
    words = JudgementInput(**judgement)
    feedback = store_feedback(task, words, source=source, author=f"signal:{kind}", trust=trust, judge=judge or {})
    payload = {"task": task.pk, "review": None, "source": str(source.value), "score": feedback.score}
    record(Kind.FEEDBACK_GIVEN, subject=feedback, by=by, payload=payload)
    note_standing([feedback])
    return feedback


def carry_on(task: Task, *, by: str) -> bool:
    """Move a task that waits for no review any more on to learning, in the running transaction, its row locked.

    Where the policy wants a second person and only one has spoken, a second review opens instead.

    Returns:
        Whether it went on to learning.
    """
    if task.state != Task.State.IN_REVIEW or waits_for_review(task):
        return False
    rules = validate_review_policy(task.project.review_policy)
    if wanted := task.people_per_pair:
        then, reason, purposes = Review.Purpose.PAIR, PAIR_REASON, [Review.Purpose.PAIR]
    else:
        decision = decide_reviewers(task, rules)
        wanted, reason = decision.reviewers.count("human"), decision.reason
        then, purposes = Review.Purpose.SECOND, [Review.Purpose.WORK, Review.Purpose.SECOND]
    asked = task.reviews.filter(audience=Review.Audience.HUMAN, purpose__in=purposes)
    spoken = task.feedback.counting().by_people()
    if asked.exclude(state=Review.State.EXPIRED).count() < wanted and spoken.exists():
        open_human_review(task, rules, reason=reason, by=by, purpose=then)
        return False
    move(task, Task.State.LEARNING, by=by)
    return True


def waits_for_review(task: Task) -> bool:
    """Whether a review of the work itself is open; a gold item keeps no task waiting."""
    return task.reviews.filter(state=Review.State.OPEN).exclude(purpose=Review.Purpose.GOLD).exists()


def _record(feedback: Feedback, by: User) -> None:
    payload = {
        "task": feedback.task_id,
        "review": feedback.review_id,
        "source": str(feedback.source),
        "score": feedback.score,
    }
    record(Kind.FEEDBACK_GIVEN, subject=feedback, by=by.handle, payload=payload)
