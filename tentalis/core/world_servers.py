"""Worlds that run elsewhere, as a setting names them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

LAST, SUM = "last", "sum"
MOST_TURNS: Final = 1_000
MOST_SEED: Final = 2**31 - 1
"""Of an episode at a server, and of one that is served."""
MOST_MESSAGE_BYTES: Final = 2**22


def require_like(kind: type, told: Mapping[str, Any]) -> None:
    """Raise ValueError where a value is of another type than the field's default; one without wants a text."""
    for name, value in told.items():
        default = getattr(kind, name, "")
        wanted: Any = type(default)
        if isinstance(default, float | tuple):
            wanted = (int, float) if isinstance(default, float) else list
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            raise ValueError(f"{name}: wanted what is like {default!r}, found {value!r:.80}")


@dataclass(frozen=True, kw_only=True)
class WorldServer:
    """A server of OpenEnv's protocol.

    Args:
        url: where it is, http or ws.
        label: what people call its world.
        reward: which of its rewards an episode is worth: the last one, or the sum of all.
        low, high: the rewards that are worth 0 and 1. One beyond them is a fault of the server, and no reward.
        turns: that an episode may take.
        chance: what luck alone is worth there, in [0, 0.5]: its examination allows guesses as much.
        acts_outside: what is done there changes something elsewhere: it is tried for tasks alone, never to measure.
    """

    url: str
    label: str = ""
    reward: str = LAST
    low: float = 0.0
    high: float = 1.0
    turns: int = 30
    chance: float = 0.05
    acts_outside: bool = False

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://", "ws://", "wss://")):
            raise ValueError(f"url: wanted http, https, ws or wss, found {self.url!r:.80}")
        if self.reward not in (LAST, SUM):
            raise ValueError(f"reward: wanted {LAST} or {SUM}, found {self.reward!r:.80}")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"low: wanted a number less than high, found {self.low} and {self.high}")
        if not 1 <= self.turns <= MOST_TURNS:
            raise ValueError(f"turns: wanted 1 to {MOST_TURNS}, found {self.turns}")
        if not 0 <= self.chance <= 0.5:
            raise ValueError(f"chance: wanted 0 to 0.5, found {self.chance}")

    @classmethod
    def from_json(cls, told: Any) -> "WorldServer":
        """Raises ValueError saying what was wanted and found."""
        names = [field.name for field in fields(cls)]
        if not isinstance(told, Mapping) or "url" not in told or set(told) - set(names):
            found = ", ".join(map(str, told)) if isinstance(told, Mapping) else repr(told)
            raise ValueError(f"wanted an object of url and of {', '.join(names[1:])}, found {found:.120}")
        require_like(cls, told)
        return cls(**told)
