"""Many rows at once, chunk by chunk, each in one transaction with where it came to, so that a killed process costs one
chunk. What cannot be done to one row is done to the others all the same.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet

from apps.accounts.models import Project, User
from apps.accounts.services import require_role
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.errors import BadInputError, TentalisError
from apps.feedback import bulk as bulk_judgements
from apps.feedback import claims, expiry, finalizing, skip, unbulk
from apps.feedback.bulk import MAX_REPORT, MAX_REVIEWS
from apps.feedback.errors import AskedMeanwhileError
from apps.feedback.models import BulkJudgement, Feedback, Review
from apps.feedback.queue import QueueFilter
from apps.feedback.rights import MANAGERS
from apps.outbox import services as outbox
from apps.outbox.kinds import OF_A_TASK, SegmentKind
from apps.outbox.models import Segment
from apps.pipeline import judging
from apps.rollouts.models import Batch
from apps.supervision.services import expire_proposals_of
from apps.tasks import services as tasks
from apps.tasks.models import Task

CHUNK = 250
ROWS = 100
"""Of an action, at once: their locks are held until all of them are done."""


def start(
    *,
    project: Project,
    by: User,
    filters: QueueFilter,
    judgement: Mapping[str, Any],
    confirmed: int,
    chosen: Sequence[int] = (),
) -> BulkJudgement:
    """Judge all that match, or were chosen, in the background."""
    with transaction.atomic():
        bulk = bulk_judgements.start_bulk(
            project=project, by=by, filters=filters, judgement=judgement, confirmed=confirmed, chosen=chosen
        )
        outbox.start(SegmentKind.BULK, subject_id=bulk.pk, project_id=bulk.project_id)
    return bulk


def begin_undo(*, bulk: BulkJudgement, by: User) -> BulkJudgement:
    """Take back all of it that nothing has learnt from, in the background."""
    with transaction.atomic():
        bulk = unbulk.begin_undo(bulk=bulk, by=by)
        outbox.start(SegmentKind.UNBULK, subject_id=bulk.pk, project_id=bulk.project_id)
    return bulk


def do_all(bulk_id: int) -> None:
    """Go on until nothing is left, or somebody cancels."""
    action = BulkJudgement.objects.values_list("action", flat=True).get(pk=bulk_id)
    go_on = judge_next if action == BulkJudgement.Action.JUDGE else act_next
    while not go_on(bulk_id):
        pass


def judge_next(bulk_id: int, *, limit: int = CHUNK) -> bool:
    """Judge one chunk; whether it was the last."""
    with transaction.atomic():
        chunk = bulk_judgements.judge_chunk(bulk_id, limit=limit)
        if chunk.learning:
            until = max(finalizing.find_undo_until([task.pk for task in chunk.learning]).values(), default=None)
            subjects = [(task.pk, task.project_id) for task in chunk.learning]
            outbox.start_many(SegmentKind.LEARN, subjects, run_after=until)
    return chunk.is_last


def undo_all(bulk_id: int) -> None:
    """Take back until nothing is left."""
    while not undo_next(bulk_id):
        pass


def undo_next(bulk_id: int, *, limit: int = CHUNK) -> bool:
    """Take back one chunk; whether it was the last.

    What no link has taken up is undone at once. The rest is retracted, but for what a closed batch holds; so is what
    stands on tasks that a person is asked about again, whose reviews are not opened once more. A chunk in which one is
    asked this very moment is left as it is, for the next time.
    """
    with suppress(AskedMeanwhileError), transaction.atomic():
        bulk, given = unbulk.find_undoing(bulk_id, limit=limit)
        if bulk is None:
            return True
        if not given:
            unbulk.end_undo(bulk)
            return True
        free = {one.task_id for one in given} - unbulk.find_under_way(given)
        stopped = outbox.cancel_unclaimed(kind=SegmentKind.LEARN, subject_ids=sorted(free))
        unbulk.undo_many(bulk, [one for one in given if one.task_id in stopped], stopped=stopped)
        rest = [one for one in given if one.task_id not in stopped]
        faults = [fault for one in rest if (fault := _retract(one, by=bulk.by))]
        unbulk.note_undone(bulk, count=len(given) - len(faults), last_id=given[-1].pk, faults=faults)
    return False


def _retract(one: Feedback, *, by: User) -> dict[str, Any] | None:
    """Why it stays; None where it does not."""
    batch = Batch.objects.filter(uses__rollout__task=one.task_id, state=Batch.State.CLOSED).first()
    if batch is not None:
        return {"review": one.review_id, "reason": f"{batch} has it: what learnt from it stays"}
    judging.retract(one, by=by, reason="the bulk judgement was taken back", needs_right=False)
    return None


@dataclass(frozen=True)
class Action:
    """What is done to each of many rows.

    Attributes:
        subject: the kind of row. rows: where they are.
        do: does it to one, by whom, with what else is said; refuses it with a TentalisError and has then done nothing.
        do_all: does it to many in a few statements, or refuses them all; None where there is no such way.
        said: names of what else can be said.
    """

    subject: str
    rows: QuerySet[Any]
    do: Callable[[Any, User, Mapping[str, Any]], object]
    do_all: Callable[[Sequence[Any], User], object] | None = None
    said: frozenset[str] = frozenset()


def _assign(review: Review, by: User, words: Mapping[str, Any]) -> None:
    name = words.get("to", "")
    to = User.objects.filter(memberships__project=review.project_id, username=name).first() if name else None
    if name and to is None:
        raise BadInputError.at("to", f"no member {name}")
    claims.assign_review(review=review, to=to, by=by)


def start_learning(task_ids: Sequence[int]) -> None:
    """Let those of the tasks that wait for no person any more go on to learn, once no judgement can be undone."""
    learning = Task.objects.filter(pk__in=task_ids, state=Task.State.LEARNING).values_list("pk", "project_id")
    subjects = list(learning.order_by("pk"))
    waits = finalizing.find_undo_until([task for task, _ in subjects])
    outbox.start_many(SegmentKind.LEARN, [one for one in subjects if one[0] not in waits])
    for one in subjects:
        if one[0] in waits:
            outbox.start_many(SegmentKind.LEARN, [one], run_after=waits[one[0]])


def cancel_tasks(chosen: Sequence[Task], by: User) -> None:
    """Give tasks of one project up, all or none; a link at work on one hangs up on whom it asked."""
    with transaction.atomic():
        # first: a link's last write too has its segment before the task
        outbox.cancel_segments(*OF_A_TASK, subject_ids=[task.pk for task in chosen])
        tasks.cancel_tasks(tasks=chosen, by=by)
        expiry.expire_reviews_of(chosen, by=by.handle)
        expire_proposals_of(chosen, by=by.handle)


@transaction.atomic
def _close(review: Review, by: User, words: Mapping[str, Any]) -> None:
    skip.skip_review(review=review, by=by, reason=str(words["reason"]), then="nobody")
    start_learning([review.task_id])


REVIEWS = Review.objects.select_related("task__project", "project", "assigned_to")
TASKS = Task.objects.select_related("project")
ACTIONS: Mapping[str, Action] = {
    "assign": Action("review", REVIEWS, _assign, said=frozenset({"to"})),
    "close": Action("review", REVIEWS, _close, said=frozenset({"reason"})),
    "cancel": Action("task", TASKS, lambda row, by, words: cancel_tasks([row], by), cancel_tasks),
    "replay": Action("segment", Segment.objects.all(), lambda row, by, words: outbox.replay(row, by=by.handle)),
    "put_away": Action("segment", Segment.objects.all(), lambda row, by, words: outbox.put_away(row, by=by.handle)),
}


def start_action(
    *, project: Project, by: User, action: str, chosen: Sequence[int], details: Mapping[str, Any]
) -> BulkJudgement:
    """Do the same to many rows, in the background; what one refuses stands in the report.

    Raises:
        NotFoundError, NotAllowedError: `by` is no manager of the project.
        BadInputError: another action, other words, no rows or more than 10,000.
    """
    require_role(by, project, *MANAGERS)
    if action not in ACTIONS:
        raise BadInputError.at("action", f"wanted one of judge, {', '.join(ACTIONS)}, found {action!r:.40}")
    if unknown := sorted(set(details) - ACTIONS[action].said):
        wanted = ", ".join(sorted(ACTIONS[action].said)) or "none"
        raise BadInputError(f"words: {action} takes {wanted}, found {', '.join(unknown)}")
    if not 1 <= len(chosen) <= MAX_REVIEWS:
        raise BadInputError(f"wanted 1 to {MAX_REVIEWS:,} rows, found {len(chosen):,}")
    with transaction.atomic():
        bulk = BulkJudgement.objects.create(
            project=project, by=by, action=action, chosen=sorted(chosen), words=dict(details), total=len(chosen)
        )
        payload = {"action": action, "words": bulk.words, "total": bulk.total}
        record(Kind.BULK_STARTED, subject=bulk, by=by.handle, payload=payload)
        outbox.start(SegmentKind.BULK, subject_id=bulk.pk, project_id=project.pk)
    return bulk


def act_next(bulk_id: int, *, limit: int = ROWS) -> bool:
    """Do it to the next rows, in one transaction with where it came to; whether that was all."""
    with transaction.atomic():
        bulk = BulkJudgement.objects.select_for_update(of=("self",)).select_related("project", "by").get(pk=bulk_id)
        if bulk.state != BulkJudgement.State.RUNNING:
            return True
        start = bisect_right(bulk.chosen, bulk.last_review_id)
        chunk = bulk.chosen[start : start + limit]
        if not chunk:
            move(bulk, BulkJudgement.State.DONE, by=bulk.by.handle, payload={"done": bulk.done, "total": bulk.total})
            return True
        action = ACTIONS[bulk.action]
        faults = [{action.subject: pk, "reason": reason} for pk, reason in _act(action, bulk, chunk).items()]
        BulkJudgement.objects.filter(pk=bulk.pk).update(
            done=F("done") + len(chunk) - len(faults),
            last_review_id=chunk[-1],
            report=[*bulk.report, *faults][:MAX_REPORT],
        )
    return False


def _act(action: Action, bulk: BulkJudgement, chunk: Sequence[int]) -> dict[int, str]:
    """Why it cannot be done to which of these rows; together where that goes, else to each alone."""
    rows = action.rows.filter(project_id=bulk.project_id).in_bulk(chunk)
    faults = {pk: f"there is no {action.subject} {pk} any more" for pk in chunk if pk not in rows}
    try:
        require_role(bulk.by, bulk.project, *MANAGERS)
    except TentalisError as error:
        return faults | dict.fromkeys(rows, str(error))
    ordered = [rows[pk] for pk in chunk if pk in rows]
    if action.do_all is not None:
        with suppress(TentalisError):
            action.do_all(ordered, bulk.by)
            return faults
    for row in ordered:
        try:
            action.do(row, bulk.by, bulk.words)
        except TentalisError as error:
            faults[row.pk] = str(error)
    return faults
