"""One judgement for many open reviews, given chunk by chunk; where it stopped it goes on, and judges nothing twice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Case, F, When
from django.db.models.functions import Now

from apps.accounts.models import Project, User
from apps.accounts.services import require_role
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.audit.services import move, move_many, record, record_many
from apps.base.errors import BadInputError
from apps.feedback.create_reviews import decide_reviewers
from apps.feedback.errors import CountChangedError
from apps.feedback.judgement import JudgementInput, find_faults
from apps.feedback.models import BulkJudgement, Feedback, Review, ReviewQuerySet
from apps.feedback.queue import COUNT_CAP, QueueFilter, count_queue, narrow
from apps.feedback.rights import MANAGERS
from apps.feedback.rules import validate_review_policy
from apps.feedback.submit import carry_on
from apps.tasks.models import Task
from apps.tasks.selectors import BoundedCount
from tentalis.core.review_policy import ReviewPolicy

MAX_REVIEWS = COUNT_CAP
UNDO = timedelta(minutes=10)
"""For so long the tasks wait before they learn, so that all of it can be taken back."""
MAX_REPORT = 500
KNOWN_WORDS = frozenset({"score", "text"})
Faults = list[dict[str, Any]]


@dataclass(frozen=True)
class Chunk:
    """What one step of a bulk judgement did: the tasks that go on to learning, and whether there is more to do."""

    learning: Sequence[Task]
    is_last: bool


def start_bulk(
    *,
    project: Project,
    by: User,
    filters: QueueFilter,
    judgement: Mapping[str, Any],
    confirmed: int,
    chosen: Sequence[int] = (),
) -> BulkJudgement:
    """Say the same of every open review that matches now; the caller starts the work on it.

    Second opinions, appeals and gold items are passed over, for they ask for a person's own judgement.

    Args:
        judgement: score in [0, 1] and text, either may be left out.
        confirmed: how many reviews `by` was told that match (`count_queue`).
        chosen: ids of those that are meant, which the filters are not asked about; (): all that match.
    Raises:
        NotFoundError, NotAllowedError: `by` is no manager of the project.
        BadInputError: other words, none, or more than 10,000 reviews.
        CountChangedError: another number matches now.
    """
    require_role(by, project, *MANAGERS)
    said = {name: value for name, value in judgement.items() if value not in (None, "")}
    if unknown := sorted(set(said) - KNOWN_WORDS):
        raise BadInputError(f"words: wanted {', '.join(sorted(KNOWN_WORDS))}, found {', '.join(unknown)}")
    if errors := find_faults(JudgementInput(**said), {}):
        raise BadInputError.at_each(errors)
    with transaction.atomic():
        count = BoundedCount(len(chosen), is_more=len(chosen) > MAX_REVIEWS) if chosen else None
        count = count_queue(project, by, filters, cap=MAX_REVIEWS) if count is None else count
        if count.is_more:
            raise BadInputError(f"filters: wanted at most {MAX_REVIEWS:,} reviews at once, found more; narrow them")
        if count != confirmed:
            message = f"wanted the {confirmed:,} reviews that were confirmed, found {count} now"
            raise CountChangedError(message, found=int(count))
        bulk = BulkJudgement.objects.create(
            project=project,
            by=by,
            filters=filters.to_query(),
            chosen=sorted(chosen),
            words=said,
            total=count,
        )
        payload = {"filters": bulk.filters, "words": said, "total": bulk.total}
        record(Kind.BULK_STARTED, subject=bulk, by=by.handle, payload=payload)
    return bulk


def cancel_bulk(*, bulk: BulkJudgement, by: User) -> BulkJudgement:
    """Stop behind the chunk at work; what is judged stays judged.

    Raises:
        NotFoundError, NotAllowedError: `by` is no manager of the project.
        IllegalMoveError: it is at its end already.
    """
    require_role(by, bulk.project, *MANAGERS)
    with transaction.atomic():
        row = BulkJudgement.objects.select_for_update().get(pk=bulk.pk)
        move(row, BulkJudgement.State.CANCELLED, by=by.handle, payload={"done": row.done, "total": row.total})
    bulk.refresh_from_db()
    return bulk


def fail_bulk(bulk_id: int, *, link: str, reason: str, by: str) -> None:
    """Store that the rest of it could not be done, or not be taken back; what was done until then stays."""
    row = BulkJudgement.objects.get(pk=bulk_id)
    if row.state in {BulkJudgement.State.RUNNING, BulkJudgement.State.UNDOING}:
        payload = {"done": row.done, "undone": row.undone, "total": row.total}
        move(row, BulkJudgement.State.FAILED, by=by, payload=payload, failure=f"{link}: {reason}")


def revive_bulk(bulk_id: int, *, link: str, by: str, state: BulkJudgement.State) -> None:
    """Let one that failed at this link go on behind its last row, running or being taken back."""
    row = BulkJudgement.objects.get(pk=bulk_id)
    if row.state == BulkJudgement.State.FAILED and row.failure.startswith(f"{link}:"):
        move(row, state, by=by, payload={"done": row.done, "total": row.total}, failure="")


def judge_chunk(bulk_id: int, *, limit: int) -> Chunk:
    """Judge the next reviews of a bulk judgement, in one transaction with where it came to."""
    with transaction.atomic():
        bulk = BulkJudgement.objects.select_for_update(of=("self",)).select_related("project", "by").get(pk=bulk_id)
        if bulk.state != BulkJudgement.State.RUNNING:
            return Chunk((), is_last=True)
        found = list(_find_reviews(bulk).order_by("pk").values_list("pk", "task_id")[:limit])
        if not found:
            move(bulk, BulkJudgement.State.DONE, by=bulk.by.handle, payload={"done": bulk.done, "total": bulk.total})
            return Chunk((), is_last=True)
        reviews, tasks = _lock(found)
        faults = [{"review": pk, "reason": "somebody is at it this moment"} for pk, _ in found if pk not in reviews]
        chosen = []
        spoken = set(
            Feedback.objects.standing()
            .filter(task__in=list(tasks), author=bulk.by.handle)
            .values_list("task_id", flat=True)
        )
        for pk, review in sorted(reviews.items()):
            if reason := _find_obstacle(review, tasks[review.task_id], bulk.by, spoken):
                faults.append({"review": pk, "reason": reason})
            else:
                chosen.append(review)
        learning = _judge(bulk, chosen, tasks)
        BulkJudgement.objects.filter(pk=bulk.pk).update(
            done=F("done") + len(chosen), last_review_id=found[-1][0], report=[*bulk.report, *faults][:MAX_REPORT]
        )
    return Chunk(learning, is_last=False)


def _find_reviews(bulk: BulkJudgement) -> ReviewQuerySet:
    """What it has still to look at: what was open when it began, behind where it came to."""
    rows = narrow(bulk.project, bulk.by, QueueFilter.from_kept({} if bulk.chosen else bulk.filters))
    if bulk.chosen:
        rows = rows.filter(pk__in=bulk.chosen)
    return rows.filter(pk__gt=bulk.last_review_id, created_at__lte=bulk.created_at)


def _lock(found: Sequence[tuple[int, int]]) -> tuple[dict[int, Review], dict[int, Task]]:
    """The reviews and their tasks by id, locked as a person's judgement locks them; without what others have locked."""
    rows = Task.objects.filter(pk__in=[task for _, task in found]).order_by("pk")
    tasks = {task.pk: task for task in rows.select_for_update(skip_locked=True, of=("self",)).select_related("project")}
    reviews = Review.objects.filter(pk__in=[pk for pk, _ in found], task__in=list(tasks), state=Review.State.OPEN)
    locked = reviews.order_by("pk").select_for_update(skip_locked=True, of=("self",))
    held = {"is_held": Case(When(claimed_by__isnull=False, lease_until__gte=Now(), then=True), default=False)}
    return {review.pk: review for review in locked.annotate(**held).select_related("claimed_by", "assigned_to")}, tasks


def _find_obstacle(review: Review, task: Task, by: User, spoken: set[int]) -> str:
    """Why this one is not judged along with the others; "" where nothing speaks against it."""
    if review.purpose != Review.Purpose.WORK:
        return "it asks for a person's own judgement"
    if task.pk in spoken:
        return f"{by.username} has spoken on its task already"
    if by.is_agent and task.submitted_by_id == by.pk:
        return f"{by.username} gave out its task itself"
    if review.assigned_to is not None and review.assigned_to_id != by.pk:
        return f"it is assigned to {review.assigned_to.username}"
    if review.claimed_by is not None and review.claimed_by_id != by.pk and getattr(review, "is_held", False):
        return f"{review.claimed_by.username} has it open"
    return ""


def _judge(bulk: BulkJudgement, reviews: Sequence[Review], tasks: Mapping[int, Task]) -> list[Task]:
    """Write the judgements and close the reviews; the tasks that go on to learning."""
    by = bulk.by.handle
    given = Feedback.objects.bulk_create(
        Feedback(
            project_id=bulk.project_id,
            task_id=review.task_id,
            review=review,
            source=Feedback.Source.HUMAN,
            author=by,
            in_bulk=bulk,
            undo_until=Now() + UNDO,
            **bulk.words,
        )
        for review in reviews
    )
    move_many(reviews, Review.State.CLOSED, by=by, payload={"bulk": bulk.pk}, closed_at=Now())
    record_many(
        AuditEntry(
            kind=Kind.FEEDBACK_GIVEN,
            subject_type="feedback",
            subject_id=one.pk,
            project_id=bulk.project_id,
            actor=by,
            payload={
                "task": one.task_id,
                "review": one.review_id,
                "source": "human",
                "score": one.score,
                "bulk": bulk.pk,
            },
        )
        for one in given
    )
    judged = [tasks[review.task_id] for review in reviews]
    return _carry_on(judged, validate_review_policy(bulk.project.review_policy), by=by)


def _carry_on(tasks: Sequence[Task], rules: ReviewPolicy, *, by: str) -> list[Task]:
    """As `giving.carry_on`, of many tasks at once; those of which the policy wants a second opinion one by one."""
    waiting = set(
        Review.objects.filter(task__in=tasks, state=Review.State.OPEN)
        .exclude(purpose=Review.Purpose.GOLD)
        .values_list("task_id", flat=True)
    )
    free = [task for task in tasks if task.state == Task.State.IN_REVIEW and task.pk not in waiting]
    learning = []
    for task in free:
        if decide_reviewers(task, rules).reviewers.count("human") <= 1:
            learning.append(task)
        else:
            carry_on(task, by=by)
    move_many(learning, Task.State.LEARNING, by=by)
    return [task for task in free if task.state == Task.State.LEARNING]
