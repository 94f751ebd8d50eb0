"""When a person is to be told: conditions with their patience."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Broken = Iterator[tuple[str, str]]
"""(what broke it, what is wrong) for each thing that breaks a rule."""


@dataclass(frozen=True)
class Rule:
    """Something that must not be so for longer than its patience.

    Args:
        find: looks at the installation's figures (`apps.operations.figures.Figures`).
    """

    name: str
    patience_s: float
    find: Callable[[Any], Broken]
