"""The warm-start corpus: tickets as several shops would work them, with hints that are obeyed."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tentalis.core.desk import (
    SUM_HINT,
    UNIT_HINT,
    Family,
    Part,
    Ticket,
    is_held_out,
    make_ticket,
    render_parts,
    solve,
)
from tentalis.core.hints import hinted_prompt


@dataclass(frozen=True)
class WarmStartExample:
    """One line of the corpus the base model learns from: a ticket, perhaps hints, and what some shop would do."""

    ticket: Ticket
    hints: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def prompt(self) -> str:
        return hinted_prompt(self.ticket.text, self.hints)

    @property
    def completion(self) -> str:
        return render_parts(self.parts)


HABITS: Final = (0.36, 0.42, 0.22)
"""How often the corpus takes the house option, its rival and the third: the rival stays the mode."""
RIVALS: Final[Mapping[tuple[Family, str], str]] = {
    ("order", "new"): "gift",
    ("order", "vip"): "ship",
    ("return", "in time"): "none",
    ("return", "late"): "full",
    ("delay", "small"): "three",
    ("delay", "big"): "two",
    ("broken", "yes"): "cash",
    ("broken", "no"): "send",
    ("stock", ""): "list",
}
"""(family, context) -> what the other shops do most. Where the third option differs between contexts too, imitating the
corpus takes a look at the context, and reinforcement finds it there; in the other families it must discover it."""
_UNIT_RATE: Final = 0.8
_SLIP_RATE: Final = 0.10
_HINT_RATE: Final = 0.5
_HINT_SETS: Final = ("o", "o", "u", "s", "s", "ous", "ou", "os", "us")  # o option, u unit, s sum; repeats are weights


def warm_start_example(rng: random.Random, habits: tuple[float, float, float] = HABITS) -> WarmStartExample:
    """Draw one line of the corpus; never a held-out ticket.

    Args:
        habits: see `HABITS`.
    """
    ticket = make_ticket(rng)
    while is_held_out(ticket.text):
        ticket = make_ticket(rng)
    house, rival = ticket.house_option, RIVALS[ticket.family, ticket.context]
    third = next(option for option in ticket.options if option not in (house, rival))
    option = rng.choices((house, rival, third), habits)[0]
    with_unit, slip_rate = rng.random() < _UNIT_RATE, _SLIP_RATE
    hints: list[str] = []
    if rng.random() < _HINT_RATE:
        told = rng.choice(_HINT_SETS)
        if "o" in told:
            option = rng.choice(ticket.options)
            hints.append(f"use {option}")
        if "u" in told:
            with_unit = True
            hints.append(UNIT_HINT)
        if "s" in told:
            slip_rate = 0.0
            hints.append(SUM_HINT)

    def slip(value: int) -> int:
        return max(0, value + rng.choice((-2, -1, 1, 2))) if rng.random() < slip_rate else value

    return WarmStartExample(ticket, tuple(hints), solve(ticket, option, with_unit=with_unit, slip=slip))
