"""The desk's rubric: its house rules and good form, found in an attempt without asking a model."""

from collections.abc import Mapping, Sequence

from tentalis.core.desk import SUM_HINT, UNIT_HINT, parse_ticket
from tentalis.core.desk_rubric import (
    FOLLOWS,
    RIGHT_SUMS,
    WITH_UNIT,
    find_favourite,
    find_items,
    read_rubric,
    weigh_rules,
)


class DeskRubric:
    def weigh(self, rubric: str) -> dict[str, float]:
        """Raises DeskError where the rubric names an option the desk does not have."""
        return weigh_rules(read_rubric(rubric))

    def find(self, prompt: str, steps: Sequence[tuple[str, str]]) -> Mapping[str, float]:
        return find_items(parse_ticket(prompt), [("bad" if kind == "other" else kind, text) for kind, text in steps])

    def tell(self, prompt: str, weights: Mapping[str, float]) -> str:
        option = find_favourite(weights, parse_ticket(prompt))
        hints = [f"use {option}"] if option else []
        hints += [UNIT_HINT] if weights.get(WITH_UNIT, 0.0) > 0 else []
        hints += [SUM_HINT] if weights.get(RIGHT_SUMS, 0.0) + weights.get(FOLLOWS, 0.0) > 0 else []
        return ", ".join(hints)
