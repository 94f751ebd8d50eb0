"""How much a run may take: at one time, for one try, and in all."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any, Final, Self

from apps.base.errors import BadInputError

MOST_AT_ONCE: Final = 256
USUAL_AT_ONCE: Final = 16
"""Tries of a model under way at one time where nobody says how many."""
MOST_SECONDS: Final = 86_400.0
MOST_TOKENS: Final = 10**12
MOST_USD: Final = 1e6
MOST_MINUTES: Final = 60.0 * 24 * 30


@dataclass
class RunSpent:
    """What a run took so far. Args: seconds: that it was at work."""

    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class RunLimits:
    """Limits of a run; None: none.

    Args:
        concurrency: tries under way at one time.
        timeout_s: of a try: one that takes longer has no outcome.
        tokens, usd, minutes: of the run, its budget: tokens asked with and written, money for the model that is
            measured, time at work. What is under way when one is reached is kept, and the run pauses.
    """

    concurrency: int | None = None
    timeout_s: float | None = None
    tokens: int | None = None
    usd: float | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        most = {
            "concurrency": MOST_AT_ONCE,
            "timeout_s": MOST_SECONDS,
            "tokens": MOST_TOKENS,
            "usd": MOST_USD,
            "minutes": MOST_MINUTES,
        }
        for name, upper in most.items():
            value = getattr(self, name)
            whole = name in {"concurrency", "tokens"}
            if value is not None and not (
                isinstance(value, int if whole else int | float)
                and not isinstance(value, bool)
                and isfinite(value)
                and 0 < value <= upper
            ):
                kind = "a whole number" if whole else "a number"
                raise BadInputError.at(name, f"wanted {kind} above 0 and at most {upper:,}, found {value!r:.80}")

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Raises BadInputError naming the field."""
        known = {one.name for one in fields(cls)}
        if unknown := sorted(stored.keys() - known):
            raise BadInputError.at("limits", f"wanted of {', '.join(sorted(known))}, found {', '.join(unknown)[:200]}")
        return cls(**stored)

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def at_once(self) -> int:
        return self.concurrency or USUAL_AT_ONCE

    @property
    def has_budget(self) -> bool:
        return any(one is not None for one in (self.tokens, self.usd, self.minutes))

    def find_reached(self, spent: RunSpent) -> str:
        """Which part of the budget is used up, in words; "" for none."""
        if self.tokens is not None and spent.tokens >= self.tokens:
            return f"its budget of {self.tokens:,} tokens is used: {spent.tokens:,}"
        if self.usd is not None and spent.usd >= self.usd:
            return f"its budget of {self.usd:,.2f} USD is used: {spent.usd:,.4f}"
        if self.minutes is not None and spent.seconds >= 60 * self.minutes:
            return f"its budget of {self.minutes:g} minutes is used: {spent.seconds / 60:.1f}"
        return ""
