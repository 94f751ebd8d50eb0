"""Python's search for garbage while a process starts and lives long: it goes through everything it holds, each time."""

import gc
from collections.abc import Sequence

YOUNG = 20_000
"""So many new objects begin a search among the young; at the 700 of the default a queue process spends a fifth of its
time on searches, most of it among modules and classes that stay for ever."""


def spare_imports() -> None:
    """Search less often from here on. Called first: modules stay, and searching took a quarter of a start."""
    gc.set_threshold(YOUNG)


def settle_garbage(thresholds: Sequence[int] = (YOUNG,)) -> None:
    """Leave what was loaded so far out of later searches, and search less often. Called once, when all is loaded.

    Args:
        thresholds: as `gc.set_threshold` takes them, of the youngest first; those that are not given stay.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*thresholds)
