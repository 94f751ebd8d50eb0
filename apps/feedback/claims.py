"""Taking reviews: nobody gets one that another has. Losing a lease loses no work, for somebody else can take it."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.models import Project, Role, User
from apps.accounts.services import find_role, require_role
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, NotFoundError
from apps.calibration.selectors import is_quarantined
from apps.feedback.errors import NotYourReviewError, ReviewTakenError
from apps.feedback.gold import draw_gold
from apps.feedback.models import UNHEARD, Feedback, FeedbackQuerySet, Review, ReviewSkip
from apps.feedback.queue import EVERYTHING, QueueFilter, narrow
from apps.feedback.rights import MANAGERS, REVIEWERS
from apps.tasks.models import Task

LEASE = timedelta(minutes=10)
LATER = timedelta(hours=1)
"""How long a review that somebody put off is kept from them while there are others."""
MAX_SNOOZE = timedelta(days=30)

_TAKE = """UPDATE feedback_review
SET claimed_by_id = %s, lease_until = statement_timestamp() + make_interval(secs => %s)"""


def claim_review(
    project: Project, by: User, filters: QueueFilter = EVERYTHING, *, lease: timedelta = LEASE
) -> Review | None:
    """Take the next open review of the project that nobody has; None when there is none.

    First what is assigned to `by`, then the rest, then what they put off themselves; each by its place in the queue.
    Nobody is given what is another's, snoozed, on a task they have spoken on or that they passed on to others, nor
    without being a manager what needs an expert; an agent is never given its own work. At the policy's `gold_rate`
    it is a gold item, which looks like any other.

    Raises:
        NotFoundError, NotAllowedError: `by` may not review in the project.
        NotYourReviewError: their word has lost its weight.
    """
    role = require_role(by, project, *REVIEWERS)
    if is_quarantined(project.pk, by.handle):
        raise NotYourReviewError(f"{by.handle} is given no reviews until a manager has looked at their judgements")
    with transaction.atomic():
        if (gold := draw_gold(project, by, filters, lease=lease)) is not None:
            return _note_claim(gold, by)
        for rows in _find_candidates(project, by, role, filters):
            if (pk := _take(rows, by, lease)) is not None:
                return _note_claim(pk, by)
    return None


def claim(review: Review, by: User, *, lease: timedelta = LEASE) -> Review:
    """Take this review; one's own is taken anew.

    Raises:
        NotFoundError, NotAllowedError, NotYourReviewError: `by` may not.
        ReviewTakenError: somebody else has it, or it is not open any more.
    """
    role = require_role(by, review.project, *REVIEWERS)
    refuse_others(review, review.task, by, role)
    with transaction.atomic():
        changed = Review.objects.filter(
            _is_free_for(by), pk=review.pk, state=Review.State.OPEN, audience=Review.Audience.HUMAN
        ).update(claimed_by=by, lease_until=Now() + lease)
        review.refresh_from_db()
        if not changed:
            raise ReviewTakenError(f"review {review.pk} cannot be taken: {_describe(review)}")
        record(Kind.REVIEW_CLAIMED, subject=review, by=by.handle, payload={"task": review.task_id})
    return review


def renew_claim(review: Review, by: User) -> Review:
    """Keep a review one has open for another while; also one whose lease ran out and that nobody took since.

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


def assign_review(*, review: Review, to: User | None, by: User) -> Review:
    """Say whose an open review is, or that it is anyone's again (None); who else has it open loses it.

    Raises:
        NotFoundError, NotAllowedError: `by` may give a review to others, or take theirs, as a manager only.
        BadInputError: `to` may not review it.
        ReviewTakenError: it is not open any more.
    """
    role = require_role(by, review.project, *REVIEWERS)
    is_own = (to is None or to.pk == by.pk) and review.assigned_to_id in (None, by.pk)
    if not is_own:
        require_role(by, review.project, *MANAGERS)
    if to is not None:
        its_role = role if to.pk == by.pk else find_role(to, review.project)
        try:
            if its_role not in REVIEWERS:
                raise NotYourReviewError(f"{to.username} does not review in {review.project.slug}")
            refuse_others(review, review.task, to, its_role, is_assigning=True)
        except NotYourReviewError as error:
            raise BadInputError.at("to", str(error)) from None
    with transaction.atomic():
        rows = Review.objects.filter(pk=review.pk, state=Review.State.OPEN, audience=Review.Audience.HUMAN)
        changed = rows.update(assigned_to=to)
        if to is not None:
            rows.exclude(claimed_by=to).update(claimed_by=None, lease_until=None)
        review.refresh_from_db()
        if not changed:
            raise ReviewTakenError(f"review {review.pk} cannot be assigned: {_describe(review)}")
        payload = {"task": review.task_id, "to": to.username if to else None}
        record(Kind.REVIEW_ASSIGNED, subject=review, by=by.handle, payload=payload)
    return review


def snooze_review(*, review: Review, until: datetime | None, by: User) -> Review:
    """Let nobody be given an open review before `until`; None wakes it. Whoever had it open gives it back.

    Raises:
        NotFoundError, NotAllowedError: `by` may not review in the project.
        BadInputError: more than 30 days away.
        ReviewTakenError: somebody else has it, or it is not open any more.
    """
    require_role(by, review.project, *REVIEWERS)
    if until is not None and until > timezone.now() + MAX_SNOOZE:
        raise BadInputError.at("until", f"wanted a time within {MAX_SNOOZE.days} days, found {until.isoformat()}")
    payload = {"task": review.task_id, "then": "snoozed", "until": until.isoformat() if until else None}
    with transaction.atomic():
        _change_free(review, by, snoozed_until=until, claimed_by=None, lease_until=None)
        record(Kind.REVIEW_PASSED_ON, subject=review, by=by.handle, payload=payload)
    return review


def set_due(*, review: Review, due_at: datetime | None, by: User) -> Review:
    """Say until when an open review is wanted; then the project's policy decides about it. None: it waits for ever.

    Raises:
        NotFoundError, NotAllowedError: only a manager says.
        ReviewTakenError: it is not open any more.
    """
    require_role(by, review.project, *MANAGERS)
    with transaction.atomic():
        changed = Review.objects.filter(pk=review.pk, state=Review.State.OPEN).update(due_at=due_at)
        review.refresh_from_db()
        if not changed:
            raise ReviewTakenError(f"review {review.pk} cannot be given a time: {_describe(review)}")
        payload = {"task": review.task_id, "due_at": due_at.isoformat() if due_at else None}
        record(Kind.REVIEW_ASSIGNED, subject=review, by=by.handle, payload=payload)
    return review


def lock_review(review: Review, by: User) -> tuple[Task, Review]:
    """The task's row and the review's, locked in that order, where `by` may close the review now.

    Raises:
        NotFoundError: the review is gone.
        NotYourReviewError: it is for others.
        ReviewTakenError: somebody else has it open.
    """
    task = Task.objects.select_for_update(of=("self",)).select_related("project").get(pk=review.task_id)
    row = (
        Review.objects.select_for_update(of=("self",))
        .select_related("claimed_by", "assigned_to", "about")
        .filter(pk=review.pk, audience=Review.Audience.HUMAN)
        .first()
    )
    if row is None:
        raise NotFoundError(f"no review {review.pk} that waits for a person")
    refuse_others(row, task, by, find_role(by, task.project))
    if row.state == Review.State.OPEN and not Review.objects.filter(_is_free_for(by), pk=row.pk).exists():
        raise ReviewTakenError(f"review {row.pk} cannot be closed: {_describe(row)}")
    return task, row


def refuse_others(review: Review, task: Task, by: User, role: Role | None, *, is_assigning: bool = False) -> None:
    """Raise NotYourReviewError where this member may review in the project, and not this."""
    if by.is_agent and task.submitted_by_id == by.pk:
        raise NotYourReviewError(f"{by.handle} gave out task {task.pk} itself; an agent cannot review its own work")
    if review.state != Review.State.OPEN:
        return
    if review.needs_expert and role not in MANAGERS:
        raise NotYourReviewError(f"review {review.pk} waits for an expert: a manager or owner")
    if review.assigned_to is not None and review.assigned_to_id != by.pk and not is_assigning:
        raise NotYourReviewError(f"review {review.pk} is assigned to {review.assigned_to.username}")
    if review.about is not None and review.about.author == by.handle:
        raise NotYourReviewError(f"review {review.pk} is an appeal against {by.handle}'s own judgement")
    if review.appellant_id == by.pk:
        raise NotYourReviewError(f"review {review.pk} is {by.handle}'s own appeal: somebody else judges it")
    if review.purpose in UNHEARD and _has_spoken(by).filter(task=task).exists():
        raise NotYourReviewError(
            f"review {review.pk} wants another's opinion; {by.handle} has spoken on task {task.pk}"
        )


def _find_candidates(project: Project, by: User, role: Role, filters: QueueFilter) -> Iterator[QuerySet[Review]]:
    """What `by` may be given, in the order in which it is looked through."""
    rows = narrow(project, by, filters).filter(
        Q(claimed_by__isnull=True) | Q(lease_until__lt=Now()),
        Q(purpose__in=[purpose for purpose in Review.Purpose if purpose != Review.Purpose.APPEAL])
        | ~Exists(Feedback.objects.filter(pk=OuterRef("about"), author=by.handle)),
        ~Exists(_has_spoken(by).filter(task=OuterRef("task"))),
        ~Q(appellant=by),
    )
    if role not in MANAGERS:
        rows = rows.filter(needs_expert=False)
    if by.is_agent:
        rows = rows.exclude(task__submitted_by=by)
    skips = ReviewSkip.objects.filter(user=by)
    kept_away = skips.exclude(then="later") | skips.filter(then="later", created_at__gt=Now() - LATER)
    fresh = rows.filter(~Exists(kept_away.filter(review=OuterRef("pk"))))
    if Review.objects.filter(assigned_to=by, state=Review.State.OPEN).exists():
        yield fresh.filter(assigned_to=by)
    yield fresh.filter(assigned_to__isnull=True)
    put_off = skips.filter(then__in=("later", "expert"), review__state=Review.State.OPEN, review__project=project)
    if not put_off.exists():
        return
    given_up = skips.filter(then="others")
    yield rows.filter(
        Q(assigned_to__isnull=True) | Q(assigned_to=by),
        ~Exists(given_up.filter(review=OuterRef("pk"))),
        pk__in=put_off.values("review"),
    )


def _take(rows: QuerySet[Review], by: User, lease: timedelta) -> int | None:
    """Take the first of these that nobody is taking this moment, in one statement: finding first and updating then
    gives one review to two people."""
    first = rows.order_by("rank_at", "pk").select_for_update(skip_locked=True, of=("self",), no_key=True).only("pk")[:1]
    found, parameters = first.query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(f"{_TAKE} WHERE id = ({found}) RETURNING id", [by.pk, lease.total_seconds(), *parameters])
        row = cursor.fetchone()
    return int(row[0]) if row else None


def _note_claim(pk: int, by: User) -> Review:
    review = Review.objects.select_related("task", "project", "claimed_by", "assigned_to").get(pk=pk)
    record(Kind.REVIEW_CLAIMED, subject=review, by=by.handle, payload={"task": review.task_id})
    return review


def _has_spoken(by: User) -> FeedbackQuerySet:
    return Feedback.objects.standing().filter(author=by.handle)


def _is_free_for(user: User) -> Q:
    return Q(claimed_by__isnull=True) | Q(claimed_by=user) | Q(lease_until__lt=Now())


def _change_claim(review: Review, by: User, **changes: object) -> None:
    changed = Review.objects.filter(pk=review.pk, state=Review.State.OPEN, claimed_by=by).update(**changes)
    review.refresh_from_db()
    if not changed:
        raise ReviewTakenError(f"review {review.pk} is not {by.handle}'s: {_describe(review)}")


def _change_free(review: Review, by: User, **changes: object) -> None:
    rows = Review.objects.filter(_is_free_for(by), pk=review.pk, state=Review.State.OPEN)
    changed = rows.filter(audience=Review.Audience.HUMAN).update(**changes)
    review.refresh_from_db()
    if not changed:
        raise ReviewTakenError(f"review {review.pk} cannot be changed: {_describe(review)}")


def _describe(review: Review) -> str:
    if review.audience != Review.Audience.HUMAN:
        return "it waits for an AI manager"
    if review.state != Review.State.OPEN:
        return f"wanted state open, found {review.state}"
    return f"{review.claimed_by.handle} has it" if review.claimed_by else "nobody has it"
