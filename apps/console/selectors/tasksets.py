"""What workers are measured on: tasksets with their items, and the tasks that worlds make up for the gate."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Max, Q, QuerySet

from apps.accounts.models import Project
from apps.base.pages import take_page
from apps.console.words_checks import say_check
from apps.console.words_facts import say_item_set
from apps.evals.models import Evaluation, Item, Taskset
from apps.evals.panels import is_own
from tentalis.core.learning.gate import find_items_needed, minimum_detectable_effect

PAGE = 25
PANELS = 20
SHOWN_ITEMS = 50
USUAL_STD = 0.5
"""Of two models' differences on an item, where right and wrong are told apart and they differ on every fourth."""
EFFECTS = (0.2, 0.1, 0.05, 0.02)


@dataclass(frozen=True)
class PanelRow:
    """Held-out tasks of the gate, in words, and how many models have met them."""

    words: str
    worker: str
    items: int
    models: int
    last_at: datetime


@dataclass(frozen=True)
class Reach:
    """What a set of held-out items can show.

    Attributes:
        effect: the smallest true difference between two models that is found four times of five, as a share.
        wanted: a smaller one, and how many more items it takes; () where the set finds the smallest asked for.
    """

    items: int
    effect: float | None
    wanted: Sequence[tuple[float, int]]


@dataclass(frozen=True)
class TasksetRow:
    """A version of a taskset, and how many items each split of it has."""

    taskset: Taskset
    counts: Mapping[str, int]


def say_right(item: Item) -> str:
    """What a right answer to it is, in words: `17, number`, and the checks; "" where it says none."""
    said = []
    match item.reference:
        case None:
            pass
        case {"match": how, "value": value}:
            said.append(f"{_spell(value)}, {how}")
        case other:
            said.append(_spell(other))
    return "; ".join([*said, *filter(None, [say_check(item.checks)])])


def _spell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def find_panels(project: Project) -> list[PanelRow]:
    """Newest first."""
    rows: Any = (
        Evaluation.objects.on_panels()
        .filter(project=project)
        .order_by()
        .values("item_set", "worker__name")
        .annotate(most=Max("items"), models=Count("pk"), last=Max("created_at"))
        .order_by("-last")[:PANELS]
    )
    tasksets = _find_held_out_names(project) if any(is_own(row["item_set"]) for row in rows) else {}
    return [
        PanelRow(say_item_set(row["item_set"], tasksets), row["worker__name"], row["most"], row["models"], row["last"])
        for row in rows
    ]


def _find_held_out_names(project: Project) -> Mapping[str, Sequence[str]]:
    """Environment -> the names of the project's tasksets with held-out items there, but for those of benchmarks."""
    rows = Taskset.objects.filter(project=project, benchmarks=None, items__split=Item.Split.HELD_OUT)
    found: dict[str, list[str]] = {}
    for environment, name in rows.order_by("name").values_list("environment", "name").distinct():
        found.setdefault(environment, []).append(name)
    return found


def find_tasksets(project: Project, *, before: int | None = None) -> tuple[list[TasksetRow], int | None]:
    """A page of tasksets, newest first, and the id to go on below."""
    counts = {split: Count("items", filter=Q(items__split=split)) for split in Item.Split.values}
    rows: QuerySet[Any] = Taskset.objects.filter(project=project).annotate(**counts)
    page, older = take_page(rows, before=before, size=PAGE)
    return [TasksetRow(one, {split: getattr(one, split) for split in counts}) for one in page], older


def count_items(taskset: Taskset) -> dict[str, int]:
    """Split -> how many items; every split."""
    found = dict(taskset.items.order_by().values_list("split").annotate(n=Count("pk")))
    return {split: found.get(split, 0) for split in Item.Split.values}


def find_reach(items: int) -> Reach:
    """What so many held-out items can show."""
    effect = minimum_detectable_effect(items=items, std=USUAL_STD) if items else None
    wanted = [(one, find_items_needed(effect=one, std=USUAL_STD) - items) for one in EFFECTS]
    return Reach(items, effect, [(one, more) for one, more in wanted if more > 0][:2])
