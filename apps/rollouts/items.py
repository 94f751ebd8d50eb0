"""What becomes an item of a taskset: rows of a file, a world's tasks, work that was done, a correction.

What something learnt from is never put among what is measured; that is known here, where it is kept what was learnt.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from apps.accounts.models import Project, User
from apps.base.errors import BadInputError
from apps.base.web_json import read_web_json
from apps.evals.holding import NearTexts
from apps.evals.models import Item, Taskset
from apps.evals.services import Added, ItemRow, add_items, read_split, refuse_rows, split_taskset
from apps.rollouts.models import Demonstration, PreferencePair, TrainingUse
from apps.tasks.models import FROM_SESSION, Task
from apps.tasks.references import read_reference
from tentalis.core.near_duplicates import list_bands
from tentalis.core.strict_json import StrictJsonError
from tentalis.core.task_files import TaskFileError, TaskRow, read_task_rows
from tentalis.limits import LIMITS

ITEM_FIELDS = ("split", "weight", "messages")
"""What a row of a file may say of an item beside what it may say of a task."""


def read_item_rows(text: str, *, form: str, split: str, name: str = "", checks: Any = None) -> list[ItemRow]:
    """The items of a file (see `tentalis.core.task_files`).

    Args:
        split, checks: of those whose row names none. name: the file's.
    Raises:
        BadInputError: naming each line that is not what is wanted, at `text`.
    """
    read_split(split)
    try:
        rows = read_task_rows(text, form=form, most=LIMITS.import_tasks, beside=ITEM_FIELDS)
    except TaskFileError as error:
        raise refuse_rows(error.faults) from None
    faults, found = {}, []
    for row in rows:
        try:
            found.append(_read_item(row if row.checks is not None else row._replace(checks=checks), split, name))
        except (BadInputError, ValueError) as error:
            faults[row.line] = str(error)
    if faults:
        raise refuse_rows(faults)
    return found


def make_item_rows(tasks: Iterable[TaskRow], *, split: str) -> list[ItemRow]:
    """Tasks that were taken from sessions, as items."""
    return [
        ItemRow(row.line, row.prompt, split, seed=row.seed, source=f"session {row.metadata[FROM_SESSION]}")
        for row in tasks
    ]


def list_task_rows(project: Project, task_ids: Sequence[int], *, split: str) -> list[ItemRow]:
    """Tasks of the project as items, with their references.

    Raises:
        BadInputError: one is not the project's, or they are of several environments.
    """
    tasks = Task.objects.filter(project=project).in_bulk(list(task_ids))
    if unknown := [pk for pk in task_ids if pk not in tasks]:
        raise BadInputError.at("tasks", f"wanted tasks of {project.slug}, found {unknown[0]}")
    if len(environments := {task.environment for task in tasks.values()}) > 1:
        raise BadInputError.at("tasks", f"wanted tasks of one environment, found {', '.join(sorted(environments))}")
    return [
        ItemRow(pk, task.prompt, split, task.reference, task.checks, seed=task.seed, source=f"task {pk}")
        for pk, task in tasks.items()
    ]


def add_to_taskset(
    *,
    project: Project,
    name: str,
    environment: str,
    rows: Sequence[ItemRow],
    by: User,
    about: str = "",
    origin: str = Taskset.Origin.MADE,
) -> Added:
    """See `apps.evals.services.add_items`: also refused is to measure on what something learnt from."""
    measured = [row for row in rows if row.split != Item.Split.TRAIN]
    taught = find_learnt(project, environment, [row.prompt for row in measured])
    found = {
        row.line: f"task {taught[row.prompt]} says nearly the same, and was learnt from: wanted something new"
        for row in measured
        if row.prompt in taught
    }
    return add_items(
        project=project,
        name=name,
        environment=environment,
        rows=rows,
        by=by,
        about=about,
        learnt=found,
        origin=origin,
    )


def divide(*, taskset: Taskset, shares: dict[str, int], seed: int, by: User) -> dict[str, int]:
    """See `apps.evals.services.split_taskset`; what something learnt from stays with what may be trained on."""
    items = dict(taskset.items.values_list("pk", "prompt"))
    taught = find_learnt(taskset.project, taskset.environment, list(items.values()))
    learnt = [pk for pk, prompt in items.items() if prompt in taught]
    return split_taskset(taskset=taskset, shares=shares, seed=seed, by=by, learnt=learnt)


def find_learnt(project: Project, environment: str, prompts: Collection[str]) -> dict[str, int]:
    """Prompt -> a task that says nearly the same and is in a batch, whether that was trained yet or not."""
    if not prompts:
        return {}
    bands = {prompt: list_bands(prompt) for prompt in prompts}
    wanted = sorted({band for of_prompt in bands.values() for band in of_prompt})
    rows = Task.objects.filter(project=project, environment=environment, bands__overlap=wanted)
    tasks = {pk: (prompt, of_task) for pk, prompt, of_task in rows.values_list("pk", "prompt", "bands")}
    used = set(TrainingUse.objects.filter(rollout__task__in=list(tasks)).values_list("rollout__task", flat=True))
    for kind in (PreferencePair, Demonstration):
        held: Any = kind.objects.filter(task__in=list(tasks), batch__isnull=False)
        used |= set(held.values_list("task", flat=True))
    numbers = {tasks[pk][0]: pk for pk in sorted(used, reverse=True)}
    near = NearTexts((environment, tasks[pk][0], tasks[pk][1] or ()) for pk in sorted(used))
    found = {prompt: near.find(environment, prompt, of_prompt) for prompt, of_prompt in bands.items()}
    return {prompt: numbers[same] for prompt, same in found.items() if same is not None}


def _read_item(row: TaskRow, split: str, name: str) -> ItemRow:
    said = row.metadata
    weight = said.get("weight", 1.0)
    if isinstance(weight, str):
        try:
            weight = float(weight)
        except ValueError:
            raise ValueError(f"weight: wanted a number, found {weight[:60]!r}") from None
    return ItemRow(
        line=row.line,
        prompt=row.prompt,
        split=read_split(said.get("split", split)),
        reference=row.reference if row.match is None else read_reference(row.reference, row.match),
        checks=row.checks,
        messages=_read_cell("messages", said.get("messages", ())),
        seed=row.seed,
        weight=weight,
        source=f"{name or 'rows'}, line {row.line}",
        facts={fact: value for fact, value in said.items() if fact not in ITEM_FIELDS},
    )


def _read_cell(name: str, value: Any) -> Any:
    """What a cell of CSV says as JSON; what came as JSON is left as it is."""
    try:
        return read_web_json(value) if isinstance(value, str) else value
    except StrictJsonError as error:
        raise ValueError(f"{name}: {error}") from None
