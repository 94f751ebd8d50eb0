"""Whether a task is held out, which means only ever measured on: every door between work and training asks here.

A task is where its world says so, or where it says the same, or nearly, as an item that its project measures on.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from apps.accounts.models import Project
from apps.base.errors import TentalisError
from apps.evals.models import Item
from apps.worlds.registry import get_world
from tentalis.core.near_duplicates import are_nearly_same, list_bands

HELD_OUT = "the task is held out: it is only ever measured on"
READS = ("project", "environment", "prompt", "bands", "evaluation")
"""Fields of a task by which it is told. Each that a row was read without costs a query."""


class AskedTask(NamedTuple):
    """As much of a task as is asked about.

    Args:
        bands: of its words, where they were made already (`tentalis.core.near_duplicates`).
    """

    pk: int
    project_id: int
    environment: str
    prompt: str
    bands: Sequence[int] | None = None


if TYPE_CHECKING:
    from apps.tasks.models import Task

    Asked = Task | AskedTask


def find_held_out(tasks: "Iterable[Asked]") -> set[int]:
    """Ids of those tasks that are held out. One query a project; none for one that holds nothing of its own out."""
    found, left = set(), defaultdict(list)
    for task in tasks:
        if not isinstance(task, AskedTask) and task.evaluation_id is not None:
            found.add(task.pk)  # a try of an evaluation, whatever it is of
        elif is_kept_by_world(task.environment, task.prompt):
            found.add(task.pk)
        elif _may_hold_out(task):
            left[task.project_id].append(task)
    for project_id, some in left.items():
        found |= _find_near_items(project_id, some)
    return found


def is_held_out(task: "Asked") -> bool:
    """Whether one task is; for several ask `find_held_out` once."""
    return bool(find_held_out([task]))


def is_kept_by_world(environment: str, prompt: str) -> bool:
    """Whether the task's own world only measures on it. What a world cannot read, it never measures on."""
    try:
        return get_world(environment).is_held_out(prompt)
    except (TentalisError, ValueError):
        return False


def list_held_out_prompts(project: Project) -> Sequence[str]:
    """Every prompt that the project's own items hold out, to be looked for inside other texts. One query or none."""
    if not project.has_held_out:
        return ()
    return list(_measured(project.pk).values_list("prompt", flat=True).distinct())


def _may_hold_out(task: "Asked") -> bool:
    """Whether the task's project has items that are only measured on, as far as is known without asking."""
    if isinstance(task, AskedTask) or not task._meta.get_field("project").is_cached(task):
        return True
    return task.project.has_held_out


def _measured(project_id: int) -> Any:
    return Item.objects.filter(taskset__project=project_id, split__in=Item.MEASURED).order_by()


def _find_near_items(project_id: int, tasks: "Sequence[Asked]") -> set[int]:
    bands = {task.pk: task.bands or list_bands(task.prompt) for task in tasks}
    wanted = sorted({band for of_task in bands.values() for band in of_task})
    rows = _measured(project_id).filter(bands__overlap=wanted)
    near = NearTexts(rows.values_list("taskset__environment", "prompt", "bands"))
    return {task.pk for task in tasks if near.find(task.environment, task.prompt, bands[task.pk])}


class NearTexts:
    """Texts of environments by their bands, of which those that say nearly the same are found."""

    def __init__(self, rows: Iterable[tuple[str, str, Sequence[int]]] = ()) -> None:
        self._by_band: defaultdict[tuple[str, int], dict[str, None]] = defaultdict(dict)
        for row in rows:
            self.add(*row)

    def add(self, environment: str, text: str, bands: Sequence[int]) -> None:
        for band in bands:
            self._by_band[environment, band][text] = None

    def find(self, environment: str, text: str, bands: Sequence[int]) -> str | None:
        """The first text that says the same, or nearly; None. Texts of the same words are looked at first."""
        return next((one for one in self._list(environment, bands) if are_nearly_same(one, text)), None)

    def _list(self, environment: str, bands: Sequence[int]) -> Iterator[str]:
        seen: set[str] = set()
        for band in bands:
            for one in self._by_band.get((environment, band), ()):
                if one not in seen:
                    seen.add(one)
                    yield one
