"""Who has a review open: taken by one person at a time, for a while, in database time."""

from datetime import timedelta

from django.db import connection, transaction
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.models import Project, Role, User
from apps.accounts.services import require_role
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import NotFoundError
from apps.feedback.errors import NotYourReviewError, ReviewTakenError
from apps.feedback.models import Review
from apps.tasks.models import Task

REVIEWERS = (Role.OWNER, Role.MANAGER, Role.REVIEWER)
LEASE = timedelta(minutes=10)

# One statement: finding first and updating then gives one review to two people. A person is never given a task they
# have spoken on already (a second opinion is another's), an agent never its own.
_CLAIM_NEXT = """
UPDATE feedback_review
SET claimed_by_id = %(user)s, lease_until = statement_timestamp() + make_interval(secs => %(lease_s)s)
WHERE id = (
    SELECT review.id FROM feedback_review review JOIN tasks_task task ON task.id = review.task_id
    WHERE review.project_id = %(project)s AND review.audience = 'human' AND review.state = 'open'
      AND (review.lease_until IS NULL OR review.lease_until < statement_timestamp())
      AND NOT (%(is_agent)s AND task.submitted_by_id = %(user)s)
      AND NOT EXISTS (SELECT FROM feedback_feedback said
                      WHERE said.task_id = review.task_id AND said.author = %(handle)s)
    ORDER BY review.id LIMIT 1 FOR UPDATE OF review SKIP LOCKED)
RETURNING id
"""


def claim_review(project: Project, by: User) -> Review | None:
    """Take the next open review of the project that nobody has; None when there is none.

    Raises:
        NotFoundError, NotAllowedError: `by` may not review in the project.
    """
    require_role(by, project, *REVIEWERS)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(
                _CLAIM_NEXT,
                {
                    "user": by.pk,
                    "handle": by.handle,
                    "is_agent": by.is_agent,
                    "project": project.pk,
                    "lease_s": LEASE.total_seconds(),
                },
            )
            found = cursor.fetchone()
        if found is None:
            return None
        review = Review.objects.select_related("task", "project", "claimed_by").get(pk=found[0])
        record(Kind.REVIEW_CLAIMED, subject=review, by=by.handle, payload={"task": review.task_id})
    return review


def claim(review: Review, by: User) -> Review:
    """Take this review; one's own is taken anew.

    Raises:
        NotFoundError, NotAllowedError, NotYourReviewError: `by` may not.
        ReviewTakenError: somebody else has it, or it is not open any more.
    """
    require_role(by, review.project, *REVIEWERS)
    _refuse_own_work(review.task, by)
    with transaction.atomic():
        changed = Review.objects.filter(
            _is_free_for(by), pk=review.pk, state=Review.State.OPEN, audience=Review.Audience.HUMAN
        ).update(claimed_by=by, lease_until=Now() + LEASE)
        review.refresh_from_db()
        if not changed:
            raise ReviewTakenError(f"review {review.pk} cannot be taken: {_describe(review)}")
        record(Kind.REVIEW_CLAIMED, subject=review, by=by.handle, payload={"task": review.task_id})
    return review


def renew_claim(review: Review, by: User) -> Review:
    """Keep a review one has open for another while.

    Raises:
        ReviewTakenError: one does not have it any more.
    """
    _change_claim(review, by, lease_until=Now() + LEASE)
    return review


def release_review(review: Review, by: User) -> Review:
    """Give a review back, so that another can take it at once.

    Raises:
        ReviewTakenError: one does not have it.
    """
    with transaction.atomic():
        _change_claim(review, by, claimed_by=None, lease_until=None)
        record(Kind.REVIEW_RELEASED, subject=review, by=by.handle, payload={"task": review.task_id})
    return review


def lock_review(review: Review, by: User) -> tuple[Task, Review]:
    """The task's row and the review's, locked in that order, where `by` may close the review now.

    Raises:
        NotFoundError: the review is gone.
        NotYourReviewError: an agent's own work.
        ReviewTakenError: somebody else has it open.
    """
    task = Task.objects.select_for_update(of=("self",)).select_related("project").get(pk=review.task_id)
    row = (
        Review.objects.select_for_update(of=("self",))
        .select_related("claimed_by")
        .filter(pk=review.pk, audience=Review.Audience.HUMAN)
        .first()
    )
    if row is None:
        raise NotFoundError(f"no review {review.pk} that waits for a person")
    _refuse_own_work(task, by)
    if row.state == Review.State.OPEN and not Review.objects.filter(_is_free_for(by), pk=row.pk).exists():
        raise ReviewTakenError(f"review {row.pk} cannot be closed: {_describe(row)}")
    return task, row


def _is_free_for(user: User) -> Q:
    return Q(claimed_by__isnull=True) | Q(claimed_by=user) | Q(lease_until__lt=Now())


def _change_claim(review: Review, by: User, **changes: object) -> None:
    changed = Review.objects.filter(pk=review.pk, state=Review.State.OPEN, claimed_by=by).update(**changes)
    review.refresh_from_db()
    if not changed:
        raise ReviewTakenError(f"review {review.pk} is not {by.handle}'s: {_describe(review)}")


def _describe(review: Review) -> str:
    if review.audience != Review.Audience.HUMAN:
        return "it waits for an AI manager"
    if review.state != Review.State.OPEN:
        return f"wanted state open, found {review.state}"
    return f"{review.claimed_by.handle} has it" if review.claimed_by else "nobody has it"


def _refuse_own_work(task: Task, by: User) -> None:
    if by.is_agent and task.submitted_by_id == by.pk:
        raise NotYourReviewError(f"{by.handle} gave out task {task.pk} itself; an agent cannot review its own work")
