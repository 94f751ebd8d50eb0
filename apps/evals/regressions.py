"""Corrections that must hold: which an adapter inherits, where they are asked, and which of them still hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from django.db.models import Q

from apps.adapters.models import Adapter
from apps.evals.models import PASSED, Evaluation, Item, ItemTry, RegressionCase, Taskset
from apps.evals.panels import find_newest, key_of, read_item
from tentalis.core.scoring.calibration import Interval, wilson_interval

NAME: Final = "regressions-{environment}"
"""Of the taskset that holds a project's cases in an environment."""


@dataclass(frozen=True)
class InheritedCase:
    """A correction of an ancestor's answer.

    Attributes:
        outcome: of the adapter's own tries at it, the mean; None: nobody asked, or it could not be graded.
        evaluation_id: where that was measured.
    """

    case: RegressionCase
    outcome: float | None = None
    evaluation_id: int | None = None

    @property
    def holds(self) -> bool | None:
        """None: not measured."""
        return None if self.outcome is None else self.outcome >= PASSED


@dataclass(frozen=True)
class Inheritance:
    """Corrections of an adapter's ancestors, each item once, oldest first."""

    cases: Sequence[InheritedCase]

    @property
    def measured(self) -> int:
        return sum(one.holds is not None for one in self.cases)

    @property
    def held(self) -> int:
        return sum(one.holds is True for one in self.cases)

    @property
    def lost(self) -> Sequence[InheritedCase]:
        """Those that hold no more."""
        return [one for one in self.cases if one.holds is False]

    @property
    def share(self) -> Interval | None:
        """Of those measured that hold, at 95 %; None: none was measured."""
        return wilson_interval(self.held, self.measured) if self.measured else None


def find_inheritance(adapter: Adapter) -> Inheritance:
    """What was corrected in answers of the adapters that it comes from, and of the base model, and what of it holds:
    right in full by its newest tries. At most three queries."""
    cases = _find_cases(adapter)
    outcomes = _find_outcomes(adapter, cases)
    return Inheritance([InheritedCase(case, *outcomes.get(key, (None, None))) for key, case in cases.items()])


def find_places(adapter: Adapter) -> list[tuple[Taskset, Sequence[int]]]:
    """Where the inherited cases are asked: tasksets, and the places of the cases among what they hold out."""
    wanted = _find_cases(adapter).keys()
    found: list[tuple[Taskset, Sequence[int]]] = []
    if wanted:
        for taskset in find_newest(adapter.project).filter(origin=Taskset.Origin.REGRESSIONS).order_by("environment"):
            items = taskset.items.filter(split=Item.Split.HELD_OUT).order_by("id")
            if places := [place for place, item in enumerate(items) if key_of(read_item(item)) in wanted]:
                found.append((taskset, places))
    return found


def _find_cases(adapter: Adapter) -> dict[int, RegressionCase]:
    """Key of an item -> its first case, of the adapter's ancestors. One query where its line has none, else two."""
    line = Q(worker=adapter.worker_id) | Q(worker__learns_with=adapter.worker_id)
    rows = RegressionCase.objects.filter(line).order_by("id").select_related("item", "adapter")
    if not (found := list(rows)):
        return {}
    parents = dict(Adapter.objects.filter(worker=adapter.worker_id).values_list("pk", "parent_id"))
    ancestors, parent = set[int | None]({None}), adapter.parent_id  # the base model is everybody's
    while parent not in ancestors:
        ancestors.add(parent)
        parent = parents.get(parent) if parent is not None else None
    cases: dict[int, RegressionCase] = {}
    for case in found:
        if case.adapter_id in ancestors:
            cases.setdefault(key_of(read_item(case.item)), case)
    return cases


def _find_outcomes(adapter: Adapter, cases: Mapping[int, RegressionCase]) -> dict[int, tuple[float, int]]:
    """Key of an item -> the mean outcome in the adapter's newest evaluation of it, and which that is."""
    if not cases:
        return {}
    rows = ItemTry.objects.filter(
        evaluation__adapter=adapter,
        evaluation__state=Evaluation.State.DONE,
        evaluation__taskset__origin=Taskset.Origin.REGRESSIONS,
        key__in=cases,
        outcome__isnull=False,
    )
    found: dict[int, tuple[int, list[float]]] = {}
    told: Any = rows.order_by("-evaluation").values_list("key", "evaluation", "outcome")
    for key, evaluation, outcome in told:
        newest, outcomes = found.setdefault(key, (evaluation, []))
        if evaluation == newest:
            outcomes.append(outcome)
    return {key: (fmean(outcomes), evaluation) for key, (evaluation, outcomes) in found.items()}
