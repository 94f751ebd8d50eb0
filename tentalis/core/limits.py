"""How much a project or a token may ask of models."""

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, ClassVar

from tentalis.core.checked import Checked, number

MAX_COUNT = 10**12
MAX_USD = 10**9
MINUTE_S, DAY_S = 60, 86_400
MONTH_S = 31 * DAY_S
"""Of the longest month; a window of so many seconds is a calendar month, however long."""


@dataclass(frozen=True, kw_only=True)
class Limits(Checked):
    """What may be asked at most; None: no limit.

    Args:
        requests_per_minute, tokens_per_minute, tokens_per_day: whole numbers from 1; tokens are prompt plus completion.
        usd_per_day, usd_per_month: more than 0, by the prices known; days and months in UTC.
    Raises:
        FieldError: naming the field.
    """

    NOUN: ClassVar[str] = "limits"

    requests_per_minute: int | None = number(None, 1, MAX_COUNT, whole=True)
    tokens_per_minute: int | None = number(None, 1, MAX_COUNT, whole=True)
    tokens_per_day: int | None = number(None, 1, MAX_COUNT, whole=True)
    usd_per_day: float | None = number(None, 0, MAX_USD, whole=False, above=True)
    usd_per_month: float | None = number(None, 0, MAX_USD, whole=False, above=True)

    @cached_property
    def are_none(self) -> bool:
        """Nothing is limited."""
        return not self.to_json()

    def to_json(self) -> dict[str, Any]:
        """Only what is limited."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


def find_window(window_s: int, now: float) -> tuple[int, float]:
    """Which window of its length a moment is in, and how many seconds of that are left, in (0, window_s].

    Args:
        window_s: MINUTE_S, DAY_S or MONTH_S; minutes, days and months are whole ones, in UTC.
        now: seconds since the epoch.
    """
    if window_s != MONTH_S:
        return int(now // window_s), window_s - now % window_s
    at = datetime.fromtimestamp(now, UTC)
    number = 12 * at.year + at.month - 1
    following = datetime((number + 1) // 12, (number + 1) % 12 + 1, 1, tzinfo=UTC)
    return number, following.timestamp() - now
