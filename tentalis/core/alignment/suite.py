"""The suite: all families."""

from typing import Final

from tentalis.core.alignment.divergence import OVERSIGHT
from tentalis.core.alignment.hackable import HACKABLE, REWARDED
from tentalis.core.alignment.misaligned import PRETENDING, QUOTED, SYCOPHANCY

FAMILIES: Final = (HACKABLE, SYCOPHANCY, PRETENDING, OVERSIGHT, QUOTED, REWARDED)
ABOUT: Final = {family.name: family.about for family in FAMILIES}
