"""Tasks of the terminal world: a line of text stands for all of one."""

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Final

from tentalis.core.terminal import places, programs, texts
from tentalis.core.terminal.scenes import NAMES, Family, Scene, Way

FAMILIES: Final[Mapping[str, Family]] = {
    family.name: family for family in (*texts.FAMILIES, *places.FAMILIES, *programs.FAMILIES)
}
NUMBERS: Final = 10_000
"""A task's number tells two of the same words apart, and what lies in their files."""
HELD_OUT_SHARE: Final = 5
"""One task in so many is only ever measured on."""


class TaskError(ValueError):
    """No task of this world; the message says what was wanted and found."""


@dataclass(frozen=True)
class Task:
    """One task. `text` is all that an agent is told, and all that there is to it."""

    text: str
    family: Family
    scene: Scene

    @property
    def house(self) -> Way:
        """The way of this house."""
        return self.scene.ways[self.family.house[self.scene.context]]

    @property
    def kind(self) -> str:
        return f"{self.family.name}, {self.scene.context}" if self.scene.context else self.family.name


@lru_cache(maxsize=512)
def read_task(text: str) -> Task:
    """The task that a text stands for: always the same.

    Raises:
        TaskError: it is none.
    """
    text = text.strip()
    for family, pattern in _PATTERNS.items():
        if (found := pattern.fullmatch(text)) is not None:
            words = {name: word for name, word in found.groupdict().items() if name != "number"}
            family_of = FAMILIES[family]
            return Task(text, family_of, family_of.make(words, Random(f"terminal:{text}")))
    raise TaskError(f"wanted a task like {write_example()!r}, found {text[:200]!r}")


def draw_task(rng: Random, *, held_out: bool, families: Sequence[str] = ()) -> Task:
    """One at random, of these families or of any."""
    while True:
        family = FAMILIES[rng.choice(list(families or FAMILIES))]
        words = {name: rng.choice(choices) for name, choices in family.places.items()}
        text = f"#{rng.randrange(NUMBERS)} {family.form.format(**words)}"
        if is_held_out(text) == held_out:
            return read_task(text)


def is_held_out(text: str) -> bool:
    """Whether a task is only ever measured on, by its text alone."""
    return zlib.crc32(text.strip().encode()) % HELD_OUT_SHARE == 0


def write_example() -> str:
    return "#4711 Pack the folder mail for the courier."


def say_forms() -> tuple[str, ...]:
    """The sentences a task can be, with what may stand at each place in brackets."""
    lines = []
    for family in FAMILIES.values():
        words = {name: f"({' or '.join(choices)})" for name, choices in family.places.items() if name != "name"}
        lines.append(f"#(number) {family.form.format(**words, name='(name)')}")
    return (*lines, "(number): 0 to 9999", f"(name): {', '.join(NAMES)}")


def _write_pattern(family: Family) -> re.Pattern[str]:
    pattern = re.escape(family.form)
    for name, choices in family.places.items():
        pattern = pattern.replace(re.escape(f"{{{name}}}"), f"(?P<{name}>{'|'.join(map(re.escape, choices))})")
    return re.compile(rf"#(?P<number>0|[1-9][0-9]{{0,3}}) {pattern}")


_PATTERNS: Final = {name: _write_pattern(family) for name, family in FAMILIES.items()}


@lru_cache(maxsize=1)
def list_hints() -> tuple[str, ...]:
    """Every hint there is, the longest first."""
    found = dict[str, None]()
    for family in FAMILIES.values():
        for words in _list_words(family):
            for way in family.make(words, Random(0)).ways.values():
                found[way.hint] = None
    return tuple(sorted(found, key=lambda hint: (-len(hint), hint)))


def _list_words(family: Family) -> list[dict[str, str]]:
    """The words of each place in turn, those that are names once."""
    found: list[dict[str, str]] = [{}]
    for name, choices in family.places.items():
        found = [{**words, name: word} for words in found for word in (choices[:1] if name == "name" else choices)]
    return found


def find_hints(text: str) -> tuple[str, ...]:
    """The hints in a manager's words, in order, each once; () when there is none."""
    pattern = "|".join(map(re.escape, list_hints()))
    return tuple(dict.fromkeys(re.findall(rf"(?<![\w/])(?:{pattern})(?![\w/])", text)))
