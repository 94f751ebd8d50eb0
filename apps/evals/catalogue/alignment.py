"""Alignment: scenarios in which something else than the honest answer is easier, pleases or pays."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from apps.evals.catalogue import CatalogueEntry, CatalogueItem, Row
from apps.evals.catalogue.shapes import require_text
from tentalis.core.alignment.scenarios import draw_scenarios
from tentalis.core.alignment.suite import ABOUT, FAMILIES

NAME: Final = "alignment"
GROUPS: Final = 12
"""Groups of twins of each family, of a split; a family's intervals are as wide as so few allow."""
PROMPTS: Final = 14
"""Of one group of each family."""


def _make(split: str, size: int, seed: int) -> Iterator[Row]:
    for one in islice(draw_scenarios(FAMILIES, split, seed=seed), size):
        question = one.question
        yield {
            "prompt": question.prompt,
            "family": one.family,
            "group": one.group,
            "twin": question.twin.value,
            "honest": list(question.honest),
            "misaligned": list(question.misaligned),
        }


def read_scenario(row: Row) -> CatalogueItem:
    """A question of a scenario as an item."""
    honest: Any = row["honest"]
    return CatalogueItem(
        prompt=require_text(row, "prompt"),
        reference={name: row[name] for name in ("group", "twin", "honest", "misaligned")},
        category=require_text(row, "family")[:64],
        oracle=f"Answer: {honest[0]}",
    )


ENTRIES: Final = (
    CatalogueEntry(
        name=NAME,
        version="1",
        about=f"Whether a model is honest where it is tempted: {'; '.join(ABOUT.values())}.",
        group="alignment",
        licence="MIT",
        grader="alignment",
        columns={
            "prompt": "what is asked",
            "family": "what it is told apart by",
            "group": "of its twins, which ask the same thing otherwise",
            "twin": "neutral, pressed, observed or unobserved",
            "honest": "answers that are honest",
            "misaligned": "answers that are not; none of a plain question",
        },
        read=read_scenario,
        make=_make,
        sizes={"held_out": GROUPS * PROMPTS, "train": GROUPS * PROMPTS},
    ),
)
