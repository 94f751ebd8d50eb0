"""Finished work out of a file: made into tasks that learn, chunk by chunk, so that a killed process costs one chunk."""

from collections.abc import Sequence
from typing import Any

from django.db import transaction

from apps.accounts.models import Project, User
from apps.base.errors import BadInputError
from apps.feedback import importing
from apps.feedback.models import RowImport
from apps.outbox import services as outbox
from apps.outbox.kinds import SegmentKind
from apps.tasks.models import Task
from apps.tasks.services import read_file
from apps.workers.models import Worker
from tentalis.core.judged_files import TASKS, JudgedRow, guess_kind
from tentalis.core.task_files import TaskRow

CHUNK = 250


def find_kind(text: str, *, form: str, rows: str) -> str:
    """What a file holds: what is said, else by its first line. Raises BadInputError: not in this form."""
    kind = rows or (guess_kind(text) if form == "jsonl" else TASKS)
    if kind != TASKS and form != "jsonl":
        raise BadInputError.at("form", f"wanted {kind} as JSON lines, Parquet or an exported archive, found {form}")
    return kind


def look_into(text: str, *, form: str, rows: str, checks: Any = None) -> Sequence[TaskRow | JudgedRow]:
    """What would be imported. Raises BadInputError naming each line that is not what is wanted.

    Args:
        checks: of tasks whose row says none.
    """
    kind = find_kind(text, form=form, rows=rows)
    if kind == TASKS:
        return read_file(text, form=form, checks=checks)
    require_none_of_tasks(kind, checks=checks)
    return importing.read_judged(text, kind=kind)


def require_none_of_tasks(kind: str, **told: Any) -> None:
    """Raises BadInputError for what is said of tasks to be done, where work is done already."""
    for name, value in told.items():
        if value is not None:
            raise BadInputError.at(name, f"wanted none: {kind} are done already, found {value!r:.80}")


def start(
    *,
    project: Project,
    by: User,
    kind: str,
    text: str,
    file: str = "",
    environment: str,
    worker: Worker | None = None,
) -> RowImport:
    """Take a file, and make tasks of its rows in the background."""
    with transaction.atomic():
        made = importing.start_import(
            project=project, by=by, kind=kind, text=text, file=file, environment=environment, worker=worker
        )
        outbox.start(SegmentKind.IMPORT, subject_id=made.pk, project_id=made.project_id)
    return made


def import_at_once(
    *, project: Project, by: User, kind: str, text: str, file: str, environment: str, worker: Worker
) -> list[Task]:
    """Make the rows of a file into tasks, in the running transaction. Raises what `importing.start_import` raises."""
    made = importing.start_import(
        project=project, by=by, kind=kind, text=text, file=file, environment=environment, worker=worker
    )
    tasks, _ = importing.import_chunk(made.pk, importing.read_import(made.pk), limit=made.total)
    outbox.start_many(SegmentKind.LEARN, [(task.pk, task.project_id) for task in tasks])
    return tasks


def import_all(import_id: int) -> None:
    """Go on until every row is a task."""
    rows = importing.read_import(import_id)
    while not import_next(import_id, rows):
        pass


def import_next(import_id: int, rows: Sequence[JudgedRow], *, limit: int = CHUNK) -> bool:
    """Make one chunk into tasks; whether it was the last."""
    with transaction.atomic():
        tasks, is_last = importing.import_chunk(import_id, rows, limit=limit)
        outbox.start_many(SegmentKind.LEARN, [(task.pk, task.project_id) for task in tasks])
    return is_last
