"""Finished work with its judgement, out of a file: made into tasks chunk by chunk, none lost and none twice."""

import hashlib
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from django.db import transaction

from apps.accounts.models import Project, User
from apps.accounts.services import require_role
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.audit.services import move, record, record_many
from apps.base.errors import BadInputError
from apps.feedback.models import Feedback, RowImport, StepFeedback
from apps.feedback.rights import MANAGERS
from apps.tasks.models import END_USER, Attempt, Step, Task
from apps.tasks.services import FinishedRow, check_finished, keep_finished
from apps.workers.models import Worker
from tentalis.core.judged_files import NO_TOKENS, JudgedRow, read_judged_rows
from tentalis.core.task_files import TaskFileError, TaskRow
from tentalis.limits import LIMITS

IMPORTER = "import"
"""How the author of imported feedback is written: `import:alice`, who brought it and did not judge it."""
FROM_FILE = "imported"
"""Key of a task's metadata: {"import": id, "file": its name, "row": line}."""


def start_import(
    *,
    project: Project,
    by: User,
    kind: str,
    text: str,
    file: str = "",
    environment: str,
    worker: Worker | None = None,
) -> RowImport:
    """Take a file of judged work, whole or not at all; the caller starts making tasks of it.

    Args:
        kind: of its rows (`tentalis.core.judged_files`). text: JSON lines. file: the name it came under.
        worker: whose tasks they become; None takes the project's only active one.
    Raises:
        NotFoundError, NotAllowedError: `by` is no manager of the project: what is imported counts as judged.
        BadInputError: each line that is not what is wanted, at `text`.
        ProjectArchivedError: it takes nothing new.
    """
    require_role(by, project, *MANAGERS)
    file = file.rpartition("/")[2][-200:]
    rows = read_judged(text, kind=kind)
    finished = [_finish(row, file, 0) for row in rows]
    worker = check_finished(project=project, rows=finished, environment=environment, by=by, worker=worker)
    with transaction.atomic():
        made = RowImport.objects.create(
            project=project,
            by=by,
            worker=worker,
            environment=environment,
            kind=kind,
            file=file,
            sha256=hashlib.sha256(text.encode()).hexdigest(),
            text=text,
            total=len(rows),
        )
        payload = {"kind": kind, "file": file, "rows": len(rows), "sha256": made.sha256}
        record(Kind.IMPORT_STARTED, subject=made, by=by.handle, payload=payload)
    return made


def read_judged(text: str, *, kind: str) -> list[JudgedRow]:
    """The rows of a file. Raises BadInputError naming lines, at `text`."""
    try:
        return read_judged_rows(text, kind=kind, most=LIMITS.import_rows)
    except TaskFileError as error:
        raise BadInputError(str(error), errors={"text": error.lines}) from None


def read_import(import_id: int) -> list[JudgedRow]:
    """Its rows; [] once all are in."""
    found = RowImport.objects.get(pk=import_id)
    return read_judged_rows(found.text, kind=found.kind, most=found.total) if found.text else []


def import_chunk(import_id: int, rows: Sequence[JudgedRow], *, limit: int) -> tuple[list[Task], bool]:
    """Make the next rows into tasks, in one transaction with how far it came; those, and whether these were the last.

    Args:
        rows: all of it, as `read_import` gave them; none of them is taken where it was ended meanwhile.
    """
    with transaction.atomic():
        found = (
            RowImport.objects.select_for_update(of=("self",))
            .select_related("project", "by", "worker")
            .get(pk=import_id)
        )
        if found.state != RowImport.State.RUNNING or not found.text:
            return [], True
        chunk = rows[found.done : found.done + limit]
        tasks = _take(found, chunk) if chunk else []
        done = found.done + len(chunk)
        RowImport.objects.filter(pk=found.pk).update(done=done)
        if is_last := done == found.total:
            payload = {"rows": done, "kind": found.kind}
            move(found, RowImport.State.DONE, by=found.by.handle, payload=payload, text="")
    return tasks, is_last


def fail_import(import_id: int, *, link: str, reason: str, by: str) -> None:
    """Store that the rest of it could not be made into tasks; those that were made stay, and learn."""
    found = RowImport.objects.get(pk=import_id)
    if found.state == RowImport.State.RUNNING:
        payload = {"rows": found.done, "kind": found.kind}
        move(found, RowImport.State.FAILED, by=by, payload=payload, failure=f"{link}: {reason}")


def revive_import(import_id: int, *, link: str, by: str) -> None:
    """Let one that failed go on behind its last task; one that was ended meanwhile stays so."""
    found = RowImport.objects.get(pk=import_id)
    if found.state == RowImport.State.FAILED:
        move(found, RowImport.State.RUNNING, by=by, payload={"rows": found.done, "kind": found.kind}, failure="")


def _take(found: RowImport, rows: Sequence[JudgedRow]) -> list[Task]:
    attempts = keep_finished(
        project=found.project,
        rows=[_finish(row, found.file, found.pk) for row in rows],
        environment=found.environment,
        by=found.by,
        worker=found.worker,
        unfit=NO_TOKENS,
    )
    firsts = [next(group) for _, group in groupby(attempts, lambda one: one.task_id)]
    given = Feedback.objects.bulk_create(
        _judge(row, first, author=f"{IMPORTER}:{found.by.username}") for row, first in zip(rows, firsts, strict=True)
    )
    _judge_steps(rows, firsts, given)
    record_many(
        AuditEntry(
            kind=Kind.FEEDBACK_GIVEN,
            subject_type="feedback",
            subject_id=one.pk,
            project_id=found.project_id,
            actor=found.by.handle,
            payload={
                "task": one.task_id,
                "review": None,
                "source": str(one.source),
                "score": one.score,
                "import": found.pk,
                "row": row.line,
            },
        )
        for one, row in zip(given, rows, strict=True)
    )
    return [first.task for first in firsts]


def _finish(row: JudgedRow, file: str, import_id: int) -> FinishedRow:
    """As a task that is done, and judged already: the project's usual checks are not asked."""
    metadata: dict[str, Any] = {FROM_FILE: {"import": import_id, "file": file, "row": row.line}}
    if row.end_user:
        metadata[END_USER] = row.end_user
    task = TaskRow(row.line, row.prompt, metadata=metadata, checks=[], group_size=len(row.answers))
    return FinishedRow(task, row.answers, row.steps)


def _judge(row: JudgedRow, first: Attempt, *, author: str) -> Feedback:
    """What the row says of its answers, and no more than that."""
    return Feedback(
        project_id=first.task.project_id,
        task=first.task,
        source=Feedback.Source.IMPORTED,
        author=author,
        score=row.score,
        preferred_attempt=first if row.is_chosen else None,
    )


def _judge_steps(rows: Sequence[JudgedRow], firsts: Sequence[Attempt], given: Sequence[Feedback]) -> None:
    labelled = {first.pk: (row, one) for row, first, one in zip(rows, firsts, given, strict=True) if row.labels}
    steps = Step.objects.filter(attempt__in=list(labelled)).order_by("attempt", "index")
    StepFeedback.objects.bulk_create(
        StepFeedback(
            feedback=labelled[step.attempt_id][1],
            attempt_id=step.attempt_id,
            step=step,
            score=float(labelled[step.attempt_id][0].labels[step.index]),
        )
        for step in steps
    )
