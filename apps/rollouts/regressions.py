"""Corrections that people make, kept as cases that every later adapter is measured on."""

from typing import Any, Final

from django.db import transaction

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.adapters.models import Adapter
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError
from apps.evals.asking import reopen_items
from apps.evals.human_grades import find_contradiction
from apps.evals.models import Item, ItemTry, RegressionCase, Taskset
from apps.evals.panels import key_of
from apps.evals.regressions import NAME
from apps.evals.services import ItemRow, hash_item
from apps.feedback.models import Feedback
from apps.rollouts.items import add_to_taskset, list_task_rows
from apps.tasks.references import read_reference
from apps.workers.models import Worker
from tentalis.core.scoring.calibration import approves

_ABOUT: Final = "Corrections that must hold. They are only ever measured on."
_SPLIT: Final = Item.Split.HELD_OUT.value


def keep_feedback(*, feedback: Feedback, by: User, reference: Any = None) -> RegressionCase:
    """Make a person's correction of a task's answer a case; said again, it is the case there is.

    Args:
        reference: what is right, as the task's environment takes it, where the task does not say it itself; None: what
            the answer was edited to.
    Raises:
        NotFoundError, NotAllowedError: `by` may not.
        BadInputError: nothing says what is right, or what it says was learnt from already.
        ConflictError: nobody was corrected, or a taskset of that name holds other items.
    """
    task = feedback.task
    require_right(by, task.project, Right.EVALS_WRITE)
    is_correction = feedback.edited_answer or (feedback.score is not None and not approves(feedback.score))
    if feedback.source != Feedback.Source.HUMAN or feedback.retracted_at is not None or not is_correction:
        message = f"wanted an answer that a person edited or rejected, and nobody took back; found {feedback}"
        raise ConflictError(message)
    [row] = list_task_rows(task.project, [task.pk], split=_SPLIT)
    if row.reference is None and row.checks is None:
        row = row._replace(reference=read_reference(feedback.edited_answer) if reference is None else reference)
    corrected = feedback.preferred_attempt or task.attempts.select_related("adapter", "worker").first()
    worker = corrected.worker if corrected else task.worker
    if worker is None:
        raise ConflictError(f"task {task.pk} has no answer that could be corrected")
    return _keep(
        task.project,
        task.environment,
        row,
        by,
        worker,
        corrected.adapter if corrected else None,
        feedback_id=feedback.pk,
    )


def keep_try(*, item_try: ItemTry, by: User, reference: Any = None) -> RegressionCase:
    """Make an item a case where a person's grade of a try of it contradicts the grader's.

    Args:
        reference: what is right, in place of what the item's grader goes by, which erred.
    Raises:
        NotFoundError, NotAllowedError: `by` may not.
        BadInputError: it does not say what is right, or what the item says was learnt from already.
        ConflictError: nobody contradicts the grader, the item is not what it was, or as in `keep_feedback`.
    """
    evaluation = item_try.evaluation
    require_right(by, evaluation.project, Right.EVALS_WRITE)
    if (grade := find_contradiction(item_try)) is None:
        raise ConflictError("wanted a try of which a person's grade contradicts the grader's, found none")
    item_set = reopen_items(evaluation)
    item = item_set.items[item_try.place]
    if key_of(item) != item_try.key:
        raise ConflictError("the item is not what it was when it was tried")
    copied = Item.objects.filter(taskset=evaluation.taskset_id, content_hash=hash_item(item.prompt, item.messages))
    source = copied.values_list("source", flat=True).first()
    row = ItemRow(
        0,
        item.prompt,
        _SPLIT,
        reference,
        messages=item.messages,
        seed=item.seed,
        source=source or f"try {item_try.pk} of evaluation {evaluation.pk}",  # who is forgotten is found by it
        category=item.category,
    )
    return _keep(evaluation.project, item_set.world.name, row, by, evaluation.worker, evaluation.adapter, grade=grade)


def _keep(
    project: Project,
    environment: str,
    row: ItemRow,
    by: User,
    worker: Worker,
    adapter: Adapter | None,
    **correction: Any,
) -> RegressionCase:
    row = row._replace(line=0)
    if row.reference is None and row.checks is None:
        raise BadInputError.at("reference", "wanted what a right answer is, found nothing")
    with transaction.atomic():
        made = add_to_taskset(
            project=project,
            name=NAME.format(environment=environment),
            environment=environment,
            rows=[row],
            by=by,
            about=_ABOUT,
            origin=Taskset.Origin.REGRESSIONS,
        )
        if made.taskset.origin != Taskset.Origin.REGRESSIONS:
            raise ConflictError(f"{made.taskset} holds other items: wanted that name for corrections that must hold")
        item = made.taskset.items.get(content_hash=hash_item(row.prompt, list(row.messages)))
        case, is_new = RegressionCase.objects.get_or_create(
            item=item, worker=worker, adapter=adapter, defaults={"kept_by": by.handle, **correction}
        )
        if is_new:
            payload = {"item": item.pk, "adapter": adapter.name if adapter else "", "worker": worker.name}
            record(Kind.REGRESSION_KEPT, subject=case, by=by.handle, project_id=project.pk, payload=payload)
    return case
