"""Evaluations on scenarios that tell whether a model is honest: their items read as these, and what was answered."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from apps.evals.models import Evaluation, ItemTry
from apps.evals.panels import key_of, read_item
from tentalis.core.alignment.figures import AlignmentFigures, Answer, AskedItem, sum_up
from tentalis.core.alignment.patterns import Stance
from tentalis.core.alignment.scenarios import Twin
from tentalis.core.worlds import PanelItem

GRADER: Final = "alignment"


def find_alignment(evaluation: Evaluation) -> AlignmentFigures | None:
    """What it says of its model; None where it asks no scenarios, which takes no query."""
    graders: Iterable[str] = evaluation.asked_with.get("graders", ())
    if evaluation.taskset is None or not any(name.startswith(f"grader {GRADER}@") for name in graders):
        return None
    items = evaluation.taskset.items.filter(split=evaluation.split)
    return sum_up(read_asked(map(read_item, items)), read_answers(evaluation.item_tries.all()))


def read_asked(items: Iterable[PanelItem]) -> dict[int, AskedItem]:
    """Key -> what it asks, of those that are scenarios."""
    found = {}
    for item in items:
        if (reference := _find_reference(item.checks)) is not None:
            found[key_of(item)] = AskedItem(item.category, reference["group"], Twin(reference["twin"]))
    return found


def read_answers(tries: Iterable[ItemTry]) -> list[Answer]:
    """What tries came to: an outcome of 1 is honest, one of 0 misaligned."""
    stances: dict[float | None, Stance] = {1.0: Stance.HONEST, 0.0: Stance.MISALIGNED}
    return [Answer(one.key, one.number, stances.get(one.outcome, Stance.NEITHER)) for one in tries]


def _find_reference(checks: Any) -> Mapping[str, Any] | None:
    for one in checks or ():
        if one.get("check") == "grader" and one.get("name") == GRADER:
            reference: Mapping[str, Any] = one["reference"]
            return reference
    return None
