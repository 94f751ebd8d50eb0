"""What a task of the terminal world is: how it is written, what it begins with, and the ways to do it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tentalis.core.terminal.trees import Tree, Want

HOME: Final = "work"
"""Directory in the root of a task's sandbox: where its files lie and its shell starts."""
Words = Mapping[str, str]
"""What stands at the places of a task's sentence."""
# fmt: off
NAMES: Final = (
    "mail", "shop", "depot", "harbor", "office", "garden", "bakery", "museum", "studio", "clinic", "market", "tower",
    "bridge", "castle", "forest", "island", "lake", "river", "valley", "meadow", "orchard", "cabin", "cellar", "attic",
    "engine", "signal", "copper", "silver", "amber", "coral", "falcon", "heron", "otter", "badger", "lynx", "robin",
)
# fmt: on
"""Of folders, files and programs."""


@dataclass(frozen=True)
class Way:
    """One way to do a task; several are right elsewhere, one is in this house.

    Args:
        hint: what its manager says who wants it so.
        commands: what does it, each with what it prints.
        wants: what is other than before when it is done, by path.
    """

    hint: str
    commands: Sequence[tuple[str, str]]
    wants: Mapping[str, Want]


@dataclass(frozen=True)
class Scene:
    """What a task begins with.

    Args:
        context: what the house's rule depends on; "" where it is always the same.
        files: by path, seen from where its shell starts; starts: what is run there before anybody comes.
        looks: commands that show what has to be seen first, each with what it prints.
        ways: by their names, the house's under `house`.
        may_change: beginnings of paths that are nobody's concern.
        ends: programs that must not run any more; keeps: that must run, by a piece of their command line.
        cheats: commands each that look right now and then, and are worth nothing.
    """

    files: Tree
    ways: Mapping[str, Way]
    context: str = ""
    looks: Sequence[tuple[str, str]] = ()
    starts: Sequence[str] = ()
    may_change: Sequence[str] = ()
    ends: Sequence[str] = ()
    keeps: Sequence[str] = ()
    cheats: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class Family:
    """Tasks of one kind.

    Args:
        form: the sentence, with the names of its places in braces.
        places: the words that each place takes, beside those that are called a name.
        house: the way of this house, by context.
        make: a task's scene of its words, with a generator of its own.
    """

    name: str
    form: str
    house: Mapping[str, str]
    make: Callable[[Words, Random], Scene]
    places: Mapping[str, Sequence[str]] = field(default_factory=dict)


def draw_other(taken: Words, rng: Random) -> str:
    """A name that no place of the task has."""
    return rng.choice([name for name in NAMES if name not in taken.values()])
