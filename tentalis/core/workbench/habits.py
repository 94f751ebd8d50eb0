"""How this house does what could be done several ways: nothing in the company tells it, only who manages there."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Habit:
    """One thing that could be done in three ways.

    Args:
        options: a word each, which no other habit has.
        house: context -> the option this house wants.
    """

    options: tuple[str, str, str]
    house: Mapping[str, str]


HABITS: Final[Mapping[str, Habit]] = {
    "mail": Habit(("post", "send", "quick"), {"": "post"}),
    "copy": Habit(("owner", "office", "nobody"), {"vip": "owner", "client": "office"}),
    "close": Habit(("resolve", "close", "done"), {"": "resolve"}),
    "pay": Habit(("credit", "cash", "swap"), {"small": "credit", "big": "cash"}),
    "room": Habit(("east", "west", "hall"), {"vip": "east", "client": "west"}),
    "supplier": Habit(("north", "south", "web"), {"furniture": "north", "supplies": "south"}),
    "folder": Habit(("legal", "sales", "misc"), {"contract": "legal", "offer": "sales"}),
}
"""Which mail tool; who gets a copy; which tool closes a ticket; how money is paid back; where one meets; who delivers;
where a document belongs."""

_OPTIONS: Final = {option: name for name, habit in HABITS.items() for option in habit.options}
_HINTS: Final = re.compile(r"\buse ([a-z]+)\b")
_HINT_TAIL: Final = re.compile(r" Hint: [^.]*\.$")


def find_habit(option: str) -> str:
    """The habit that a word is an option of; "" of any other word."""
    return _OPTIONS.get(option, "")


def write_hint(option: str) -> str:
    return f"use {option}"


def parse_hints(text: str) -> tuple[str, ...]:
    """The hints in a manager's words, in order, each once; () where there is none."""
    return tuple(dict.fromkeys(write_hint(word) for word in _HINTS.findall(text) if word in _OPTIONS))


def drop_hints(text: str) -> str:
    """A task's text without the hints behind it."""
    return _HINT_TAIL.sub("", text.strip())
