"""Which items of a benchmark are worth trying next: those that a model gets right sometimes.

A group whose tries are all right, or all wrong, has no advantage and teaches nothing (GRPO, arXiv:2402.03300, eq. 3),
so such items are set aside. DAPO (arXiv:2503.14476, section 3.2) drops their groups after sampling them; here they are
not sampled again.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, Final, NamedTuple

SOLVED: Final = "solved"
UNSOLVED: Final = "unsolved"


@dataclass(frozen=True, kw_only=True)
class CurriculumRule:
    """When an item is set aside.

    Args:
        solved_rounds: rounds in a row in which every try was right.
        unsolved_rounds: rounds in a row in which no try was.
        version: of this rule.
    """

    solved_rounds: int = 1
    unsolved_rounds: int = 2
    version: str = "1"

    def __post_init__(self) -> None:
        for name in ("solved_rounds", "unsolved_rounds"):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= 100:
                raise ValueError(f"{name}: wanted a whole number from 1 to 100, found {value!r:.40}")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class ItemRound(NamedTuple):
    """What came of an item in one round.

    Args:
        tries: that have an outcome; right: of those, in full.
    """

    tries: int
    right: int


class Choice(NamedTuple):
    """The items of a round.

    Args:
        items: in the order they are tried in.
        fresh, mixed, brought_back: how many of them were never tried, got right sometimes, or were set aside before.
        solved, unsolved: how many are set aside now.
    """

    items: tuple[int, ...]
    fresh: int
    mixed: int
    brought_back: int
    solved: int
    unsolved: int


def find_aside(rounds: list[ItemRound], rule: CurriculumRule) -> str:
    """Why an item is set aside: SOLVED or UNSOLVED; "" where it is not.

    Args:
        rounds: those it was tried in, in order.
    """
    last = [one for one in rounds if one.tries]
    if len(last) >= rule.solved_rounds and all(one.right == one.tries for one in last[-rule.solved_rounds :]):
        return SOLVED
    if len(last) >= rule.unsolved_rounds and all(one.right == 0 for one in last[-rule.unsolved_rounds :]):
        return UNSOLVED
    return ""


def choose_items(history: Mapping[int, list[ItemRound]], *, count: int, rule: CurriculumRule, rng: Random) -> Choice:
    """At most `count` items: half of them never tried while there are such, the rest those got right sometimes.

    Where these are too few, unsolved ones come back, and solved ones last; those tried least often first.

    Args:
        history: item -> the rounds it was tried in; [] of one that never was. The order says nothing.
    """
    aside = {item: find_aside(rounds, rule) for item, rounds in history.items()}
    fresh = sorted(item for item, rounds in history.items() if not rounds)
    mixed = sorted(item for item, rounds in history.items() if rounds and not aside[item])
    rng.shuffle(fresh)
    rng.shuffle(mixed)
    new = fresh[: max(count - len(mixed), count // 2)]
    again = mixed[: count - len(new)]
    back: list[int] = []
    for why in (UNSOLVED, SOLVED):
        rest = sorted((item for item in aside if aside[item] == why), key=lambda item: (len(history[item]), item))
        back += rest[: max(0, count - len(new) - len(again) - len(back))]
    items = [*new, *again, *back]
    rng.shuffle(items)
    counts = [sum(one == why for one in aside.values()) for why in (SOLVED, UNSOLVED)]
    return Choice(tuple(items), len(new), len(again), len(back), counts[0], counts[1])
