"""Reviews whose patience has ended: the policy says what becomes of the task."""

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from django.db import transaction
from django.db.models.functions import Now

from apps.audit.kinds import Kind
from apps.audit.services import move, move_many, record
from apps.base.errors import BadInputError
from apps.feedback.models import Feedback, Review
from apps.feedback.rules import validate_review_policy
from apps.feedback.set_aside import Trust
from apps.feedback.submit import waits_for_review
from apps.tasks.models import Task
from tentalis.core.review_policy import ReviewPolicy

logger = logging.getLogger(__name__)

LINK = "feedback.open_review"
LONGEST_DELAY: Final = timedelta(hours=8)
"""For which somebody who has a review open keeps it from expiring: a page left open renews its claim for ever."""


def expire_reviews(*, limit: int = 200, by: str = "sweep") -> list[int]:
    """Expire the reviews that are due; rows someone holds this moment are left for the next time.

    So is what somebody works on, while their lease lasts and for at most `LONGEST_DELAY`.

    By the project's `on_timeout`: the task learns without the review, fails, or learns from the AI manager, whose
    review is opened here and answered by the link that draws hints, for that may wait for a model. A task fails only
    where no review came, and the AI manager is asked only where no person spoke: it learns from what did come, without
    the second opinion.

    Returns:
        Ids of the tasks that went on to learning, whose next segment is to be started in the same transaction.
    """
    with transaction.atomic():
        due = (
            Review.objects.select_for_update(of=("self", "task"), skip_locked=True)
            .select_related("task__project")
            .filter(state=Review.State.OPEN, audience=Review.Audience.HUMAN, due_at__lt=Now())
            .exclude(claimed_by__isnull=False, lease_until__gte=Now(), due_at__gte=Now() - LONGEST_DELAY)
            .order_by("due_at")[:limit]
        )
        return [review.task_id for review in due if _expire(review, by=by)]


def _expire(review: Review, *, by: str) -> bool:
    """Whether the task went on to learning."""
    task = review.task
    try:
        rules = validate_review_policy(task.project.review_policy)
    except BadInputError as error:
        logger.error("review %s is due and stays open: %s", review.pk, error)
        return False
    move(review, Review.State.EXPIRED, by=by, payload={"task": task.pk, "then": rules.on_timeout}, closed_at=Now())
    decides = review.purpose in (Review.Purpose.WORK, Review.Purpose.SECOND, Review.Purpose.PAIR)
    if not decides or task.state != Task.State.IN_REVIEW or waits_for_review(task):
        return False
    if review.purpose == Review.Purpose.PAIR:  # nothing is learned from it, and no machine is asked in a person's place
        move(task, Task.State.LEARNING, by=by, payload={"reason": "nobody compared the answers in time"})
        return True
    spoken = task.feedback.counting().by_people()
    if rules.on_timeout == "fail" and not spoken.filter(review__isnull=False).exists():
        failure = f"no review came within {rules.patience_s} s"
        move(task, Task.State.FAILED, by=by, payload={"link": LINK}, failed_link=LINK, failure=failure)
        return False
    if rules.on_timeout == "ai" and not spoken.exists():
        _turn_to_ai(task, rules, by=by)
    move(task, Task.State.LEARNING, by=by, payload={"reason": "no review came in time"})
    return True


def _turn_to_ai(task: Task, rules: ReviewPolicy, *, by: str) -> None:
    """Open a review for the AI manager, unless one has spoken whose word counts."""
    trust = Trust(task.project_id)
    if any(not trust.silence(said) for said in task.feedback.counting().filter(source=Feedback.Source.AI)):
        return
    reason = f"nobody came within {rules.patience_s} s"
    review = Review.objects.create(project_id=task.project_id, task=task, audience=Review.Audience.AI, reason=reason)
    record(Kind.REVIEW_OPENED, subject=review, by=by, payload={"task": task.pk, "reason": reason})


def expire_reviews_of(tasks: Sequence[Task], *, by: str) -> int:
    """Expire every open review of tasks that ended; how many there were."""
    rows = Review.objects.filter(task__in=tasks, state=Review.State.OPEN).order_by("pk")
    with transaction.atomic():
        waiting = list(rows.select_for_update(no_key=True))
        move_many(
            waiting, Review.State.EXPIRED, by=by, payload=lambda review: {"task": review.task_id}, closed_at=Now()
        )
    return len(waiting)
