"""How much a project or a token may ask of models."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

MAX_COUNT = 10**12
MAX_USD = 10**9
MINUTE_S, DAY_S = 60, 86_400
MONTH_S = 31 * DAY_S
"""Of the longest month; a window of so many seconds is a calendar month, however long."""


class LimitsError(ValueError):
    """Limits are not what they should be; the message names the part, what was wanted and what was found."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What may be asked at most; None: no limit.

    Args:
        requests_per_minute, tokens_per_minute, tokens_per_day: whole numbers from 1; tokens are prompt plus completion.
        usd_per_day, usd_per_month: more than 0, by the prices known; days and months in UTC.
    Raises:
        LimitsError: naming the field.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    tokens_per_day: int | None = None
    usd_per_day: float | None = None
    usd_per_month: float | None = None

    def __post_init__(self) -> None:
        for name in ("requests_per_minute", "tokens_per_minute", "tokens_per_day"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or not 1 <= value <= MAX_COUNT):
                raise LimitsError(f"{name}: wanted a whole number from 1 to {MAX_COUNT:,}, found {value!r}")
        for name in ("usd_per_day", "usd_per_month"):
            usd: object = getattr(self, name)
            if usd is not None and (
                isinstance(usd, bool)
                or not isinstance(usd, int | float)
                or not math.isfinite(usd)
                or not 0 < usd <= MAX_USD
            ):
                raise LimitsError(f"{name}: wanted a number above 0 and at most {MAX_USD:,}, found {usd!r}")

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Limits as they are stored: what is left out or null is no limit.

        Raises:
            LimitsError: a name nobody knows, or a value that cannot be.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        if unknown := sorted(set(value) - set(known)):
            raise LimitsError(f"wanted {', '.join(known)}; found {', '.join(map(str, unknown))[:200]}")
        return cls(**value)

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
