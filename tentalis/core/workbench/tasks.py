"""Tasks: one line of text each, in ten families, of which three are only ever measured on."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Final

from tentalis.core.workbench.company import (
    CAST,
    CLIENTS,
    DAYS,
    ITEMS,
    KINDS,
    SIZES,
    VIPS,
    find_group,
    find_tier,
)
from tentalis.core.workbench.habits import HABITS, drop_hints, write_hint

_TEXTS: Final[Mapping[str, str]] = {
    "remind": "Remind the {tier} {client} of the {size} bill.",
    "meet": "Meet the {tier} {client} on {day}.",
    "restock": "Restock the {item}, {group}.",
    "file": "File the {kind} of {client}.",
    "refund": "Refund the {size} bill of {client}.",
    "close": "Close the ticket of {client}.",
    "send": "Send the {kind} to the {tier} {client}.",
    "apologise": "Apologise to the {tier} {client} and close the ticket.",
    "invite": "Meet the {tier} {client} on {day} and confirm by mail.",
    "settle": "Refund the {size} bill of {client} and close the ticket.",
}
FAMILIES: Final = tuple(_TEXTS)
HELD_OUT_FAMILIES: Final = ("apologise", "invite", "settle")
TRAINED_FAMILIES: Final = tuple(name for name in FAMILIES if name not in HELD_OUT_FAMILIES)
SEQUENCE: Final = 20
"""Tasks of a sequence."""
MOST_A_DAY: Final = 5
"""Meetings of a sequence: a day has that many free hours at least."""

_HABITS: Final[Mapping[str, Mapping[str, str]]] = {
    "remind": {"mail": "", "copy": "tier"},
    "meet": {"room": "tier"},
    "restock": {"supplier": "group"},
    "file": {"folder": "kind"},
    "refund": {"pay": "size"},
    "close": {"close": ""},
    "send": {"mail": "", "copy": "tier"},
    "apologise": {"mail": "", "copy": "tier", "close": ""},
    "invite": {"room": "tier", "mail": "", "copy": "tier"},
    "settle": {"pay": "size", "close": ""},
}
"""Family -> the habits that decide, each with the field that is its context."""

_CHOICES: Final[Mapping[str, Sequence[str]]] = {
    "client": CLIENTS, "item": ITEMS, "size": SIZES, "kind": KINDS, "day": DAYS,
}  # fmt: skip


class WorkbenchError(ValueError):
    """A text is no task; the message says what was wanted and found."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task; fields that its family does not use stay ""."""

    family: str
    client: str = ""
    item: str = ""
    size: str = ""
    kind: str = ""
    day: str = ""

    @property
    def tier(self) -> str:
        return find_tier(self.client)

    @property
    def group(self) -> str:
        return find_group(self.item)

    @property
    def text(self) -> str:
        """What the agent reads."""
        told = {**vars(self), "tier": self.tier, "group": self.group}
        return _TEXTS[self.family].format(**told)

    @property
    def house(self) -> Mapping[str, str]:
        """Habit -> the option that this house wants here."""
        return {
            habit: HABITS[habit].house[getattr(self, context) if context else ""]
            for habit, context in _HABITS[self.family].items()
        }

    @property
    def hints(self) -> tuple[str, ...]:
        """What a manager who knows the house says of it."""
        return tuple(map(write_hint, self.house.values()))

    @property
    def kind_of(self) -> str:
        """What it has in common with the tasks that the same is learnt from."""
        contexts = {getattr(self, context) for context in _HABITS[self.family].values() if context}
        return ", ".join([self.family, *sorted(contexts)])

    @property
    def touches(self) -> frozenset[str]:
        """What no other task of its sequence may touch, for the company holds one of each."""
        touched = {
            "bill": f"bill {self.client} {self.size}" if self.size else "",
            "document": f"document {self.client} {self.kind}" if self.kind else "",
            "ticket": f"ticket {self.client}" if self.family in {"close", "apologise", "settle"} else "",
            "day": f"day {self.client} {self.day}" if self.day else "",
            "item": f"item {self.item}" if self.item else "",
        }
        return frozenset(filter(None, touched.values()))


def _list_fields(family: str) -> list[str]:
    return [name for name in _CHOICES if f"{{{name}}}" in _TEXTS[family]]


def _list_tasks(family: str) -> Iterator[Task]:
    names = _list_fields(family)
    for values in product(*(_CHOICES[name] for name in names)):
        yield Task(family=family, **dict(zip(names, values, strict=True)))


_TASKS: Final[Mapping[str, Task]] = {task.text: task for family in FAMILIES for task in _list_tasks(family)}
"""Every text that is a task."""


def parse_task(text: str) -> Task:
    """Read a task from its text; hints behind it are dropped.

    Raises:
        WorkbenchError: it is none, or names what the company does not know.
    """
    if task := _TASKS.get(line := drop_hints(text)):
        return task
    known = "; ".join(f"({name}): {', '.join(values)}" for name, values in _CHOICES.items())
    raise WorkbenchError(
        f"not a task of the workbench: found {line[:120]!r}, wanted one of these. {say_forms()} {known}; "
        f"(tier): vip for {', '.join(VIPS)}, client for all others"
    )


def say_forms() -> str:
    """The lines a task can be."""
    names = {name: f"({name})" for name in (*_CHOICES, "tier", "group")}
    return " ".join(text.format(**names) for text in _TEXTS.values())


def is_held_out(text: str) -> bool:
    """Whether a task is only ever measured on: of three families each, of the others one in five, by its CRC-32."""
    task = parse_task(text)
    return task.family in HELD_OUT_FAMILIES or _is_kept(task.text)


def _is_kept(text: str) -> bool:
    return zlib.crc32(text.encode()) % 5 == 0


def make_task(
    rng: Random, *, families: Sequence[str] = FAMILIES, kept: bool | None = None, clients: Sequence[str] = CLIENTS
) -> Task:
    """Draw one.

    Args:
        kept: whether its text is one of the one in five that no model has read; None: either.
    """
    while True:
        family, choices = rng.choice(families), {**_CHOICES, "client": clients}
        task = Task(family=family, **{name: rng.choice(choices[name]) for name in _list_fields(family)})
        if kept is None or _is_kept(task.text) == kept:
            return task


def make_sequence(seed: int, *, size: int = SEQUENCE, families: Sequence[str] = FAMILIES) -> list[Task]:
    """Tasks for one company that lasts, each doable whatever came of the others before it."""
    rng = Random(f"workbench sequence/{seed}")
    cast, made, touched = rng.sample(CLIENTS, CAST), list[Task](), set[str]()
    while len(made) < size:
        task = make_task(rng, families=families, clients=cast)
        is_full = task.day and sum(one.day == task.day for one in made) >= MOST_A_DAY
        if not is_full and touched.isdisjoint(task.touches):
            made.append(task)
            touched |= task.touches
    return made
