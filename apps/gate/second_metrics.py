"""What a candidate is asked beside its work, of which no reward sees anything."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tentalis.core.learning.collapse import Alarm


class SecondMetric(NamedTuple):
    """What came of one.

    Args:
        words: for a person. details: the numbers, or under `untold` why there are none.
    """

    alarms: Sequence[Alarm]
    words: str
    details: dict[str, Any]


def tell_nothing(reason: str) -> SecondMetric:
    """Of what could not be measured: why."""
    return SecondMetric((), reason, {"untold": reason})
