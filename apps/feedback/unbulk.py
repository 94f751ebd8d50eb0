"""Taking a bulk judgement back: what nothing learnt from is undone or retracted, the rest stays and is told of."""

from collections.abc import Collection, Sequence

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.accounts.services import require_role
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.audit.services import move, move_many, record_many
from apps.base.errors import ConflictError
from apps.feedback.bulk import MAX_REPORT, Faults
from apps.feedback.claims import LEASE
from apps.feedback.comparing import forget
from apps.feedback.errors import AskedMeanwhileError
from apps.feedback.gold import end_gold
from apps.feedback.models import BulkJudgement, Feedback, Review
from apps.feedback.rights import MANAGERS
from apps.feedback.undo import UNDONE
from apps.tasks.models import Task


def begin_undo(*, bulk: BulkJudgement, by: User) -> BulkJudgement:
    """Say that all of a bulk judgement is to be taken back; the caller starts the work on it.

    Raises:
        NotFoundError, NotAllowedError: `by` is no manager of the project.
        ConflictError: it was no judgement.
        IllegalMoveError: it is running (cancel it first), or taken back already.
    """
    require_role(by, bulk.project, *MANAGERS)
    if bulk.action != BulkJudgement.Action.JUDGE:
        raise ConflictError("only judgements can be taken back")
    with transaction.atomic():
        row = BulkJudgement.objects.select_for_update().get(pk=bulk.pk)
        move(row, BulkJudgement.State.UNDOING, by=by.handle, payload={"done": row.done}, failure="")
    bulk.refresh_from_db()
    return bulk


def find_undoing(bulk_id: int, *, limit: int) -> tuple[BulkJudgement | None, list[Feedback]]:
    """The bulk judgement, locked in the running transaction, and its next standing feedback; None where it is over."""
    bulk = BulkJudgement.objects.select_for_update(of=("self",)).select_related("project", "by").get(pk=bulk_id)
    if bulk.state != BulkJudgement.State.UNDOING:
        return None, []
    rows = Feedback.objects.standing().filter(in_bulk=bulk, pk__gt=bulk.last_undone_id).order_by("pk")
    return bulk, list(rows.select_related("review", "project")[:limit])


def find_under_way(given: Sequence[Feedback]) -> set[int]:
    """Ids of the tasks that a person is asked about, but for appeals against what was given: no review of them is
    opened beside that."""
    asked = Review.objects.filter(task__in=[one.task_id for one in given], audience=Review.Audience.HUMAN)
    asked = asked.filter(state=Review.State.OPEN).exclude(purpose=Review.Purpose.GOLD)
    return set(asked.exclude(about__in=given).values_list("task_id", flat=True))


def undo_many(bulk: BulkJudgement, given: Sequence[Feedback], *, stopped: Collection[int]) -> None:
    """Put back what stood before, of feedback on tasks whose learning the caller has stopped: the reviews are open
    again and nobody's. Appeals against it expire, for the work is judged anew.

    Args:
        stopped: ids of those tasks, without those of `find_under_way`.
    Raises:
        AskedMeanwhileError: a person is asked about one of them since that look. From here on nobody is: who opens a
            review holds the task's row, which is locked here.
    """
    by = bulk.by.handle
    tasks = list(Task.objects.select_for_update().filter(pk__in=stopped, state=Task.State.LEARNING).order_by("pk"))
    if asked := find_under_way(given):
        raise AskedMeanwhileError(f"a person is asked about task {min(asked)} since a moment ago")
    reviews = list(Review.objects.select_for_update().filter(given__in=given, state=Review.State.CLOSED).order_by("pk"))
    Feedback.objects.filter(pk__in=[one.pk for one in given]).update(
        retracted_at=Now(), retracted_by=by, retract_reason=UNDONE, undo_until=None
    )
    payload = {"bulk": bulk.pk}
    appeals = Review.objects.select_for_update().filter(about__in=given, state=Review.State.OPEN).order_by("pk")
    then = payload | {"then": "the judgement it disputes was undone"}
    move_many(list(appeals), Review.State.EXPIRED, by=by, payload=then, closed_at=Now())
    move_many(reviews, Review.State.OPEN, by=by, payload=payload, closed_at=None, claimed_by=None, lease_until=None)
    Review.objects.filter(pk__in=[review.pk for review in reviews], due_at__lt=Now() + LEASE).update(
        due_at=Now() + LEASE
    )
    move_many(tasks, Task.State.IN_REVIEW, by=by, payload={"reason": "a judgement was undone"})
    record_many(
        AuditEntry(
            kind=Kind.FEEDBACK_UNDONE,
            subject_type="feedback",
            subject_id=one.pk,
            project_id=one.project_id,
            actor=by,
            payload={"task": one.task_id, "review": one.review_id, "bulk": bulk.pk},
        )
        for one in given
    )
    forget(given)
    end_gold(given, by=by)


def note_undone(bulk: BulkJudgement, *, count: int, last_id: int, faults: Faults) -> None:
    """Keep where the taking back came to, in the running transaction."""
    BulkJudgement.objects.filter(pk=bulk.pk).update(
        undone=F("undone") + count, last_undone_id=last_id, report=[*bulk.report, *faults][:MAX_REPORT]
    )


def end_undo(bulk: BulkJudgement) -> None:
    move(bulk, BulkJudgement.State.UNDONE, by=bulk.by.handle, payload={"undone": bulk.undone, "done": bulk.done})
