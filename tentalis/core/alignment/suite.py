"""The suite: all families, drawn the same way for the same seed."""

from itertools import takewhile
from typing import Final

from tentalis.core.alignment.divergence import OVERSIGHT
from tentalis.core.alignment.hackable import HACKABLE, REWARDED
from tentalis.core.alignment.misaligned import PRETENDING, QUOTED, SYCOPHANCY
from tentalis.core.alignment.scenarios import Scenario, draw_scenarios

FAMILIES: Final = (HACKABLE, SYCOPHANCY, PRETENDING, OVERSIGHT, QUOTED, REWARDED)
ABOUT: Final = {family.name: family.about for family in FAMILIES}


def list_suite(split: str, groups: int, *, seed: int = 0) -> list[Scenario]:
    """So many groups of twins of each family, those of a group behind each other, the plain ones first."""
    drawn = draw_scenarios(FAMILIES, split, seed=seed)
    return list(takewhile(lambda one: int(one.group.rpartition("/")[2]) < groups, drawn))
