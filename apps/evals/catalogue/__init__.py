"""The benchmarks that come along, a family a file: each module names its own as `ENTRIES`."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import islice
from pkgutil import iter_modules
from typing import Any, Final

from apps.base.errors import BadInputError
from apps.evals.services import draw_rows

__all__ = ["NEEDS", "CatalogueEntry", "CatalogueItem", "find_entry", "list_entries", "render"]

NEEDS: Final = ("network", "container", "gpu", "judge", "key", "file")
"""What a benchmark may want that an installation need not have; `file`: its rows, which nothing here makes."""
Row = Mapping[str, Any]
_COLUMN: Final = re.compile(r"\{([a-z_]{1,40})\}")


def render(template: str, row: Row) -> str:
    """A template with each `{column}` that a row has in its place; other braces stay as they are."""
    return _COLUMN.sub(lambda found: str(row[found[1]]) if found[1] in row else found[0], template)


@dataclass(frozen=True, kw_only=True)
class CatalogueItem:
    """An item of a benchmark, as its row is read.

    Args:
        reference, options: what its grader grades by.
        messages: the whole conversation that the prompt ends; () where there is no more than the prompt.
        category: what figures are told apart by; "" for none.
        oracle: a right answer in words; None: none is known.
        world_reference, seed: of an item that a world made up and verifies itself.
    """

    prompt: str
    reference: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    messages: Sequence[Mapping[str, Any]] = ()
    category: str = ""
    oracle: str | None = None
    world_reference: Any = None
    seed: int | None = None


@dataclass(frozen=True, kw_only=True)
class CatalogueEntry:
    """A benchmark that comes along: with its rows, or with what a file of them has to hold.

    Args:
        version: another one asks, or grades, differently.
        group: what it is about, for lists: math, code, instructions ...
        template: the prompt, with the row's `{columns}` in it; "" where a world makes the prompts up.
        grader: its name; "": the world verifies.
        columns: of a row -> what stands there.
        read: a row as an item. Raises ValueError saying what was wanted and found.
        make: rows of a split, the same for the same seed; None: they come from a file.
        sizes: split -> items of it at most, or where it makes as many as are wanted, at first.
        needs: of NEEDS.
        package: the distribution its data comes from; "" for none.
        tries: of each item, at first.
        synthetic: rows made up in the form of a file's, which prove template and grader from end to end.
        chance: share that a guess gets.
    """

    name: str
    version: str
    about: str
    group: str
    licence: str
    environment: str = "chat"
    template: str = ""
    grader: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[Row], CatalogueItem] | None = None
    make: Callable[[str, int, int], Iterator[Row]] | None = None
    sizes: Mapping[str, int] = field(default_factory=lambda: {"held_out": 100})
    needs: frozenset[str] = frozenset()
    package: str = ""
    tries: int = 1
    synthetic: Callable[[int, int], Iterator[Row]] | None = None
    chance: float = 0.0

    @property
    def is_offline(self) -> bool:
        """Whether it runs without a network or a file."""
        return not self.needs & {"network", "file"}

    def list_items(self, split: str, *, count: int | None = None, seed: int = 0) -> list[CatalogueItem]:
        """Its items of a split, the same for the same seed.

        Raises:
            BadInputError: its rows come from a file, or it has no such split.
        """
        if split not in self.sizes:
            raise BadInputError.at("split", f"wanted one of {', '.join(self.sizes)}, found {split!r:.40}")
        size = self.sizes[split] if count is None else count
        if self.read is None:
            rows = draw_rows(self.environment, count=size, seed=seed, split=split)
            return [CatalogueItem(prompt=one.prompt, world_reference=one.reference, seed=one.seed) for one in rows]
        if self.make is None:
            columns = ", ".join(f"{name} ({about})" for name, about in self.columns.items())
            raise BadInputError.at("file", f"{self.name} needs its rows from a file: wanted columns {columns}")
        return [self.read(row) for row in islice(self.make(split, size, seed), size)]

    def read_rows(self, rows: Sequence[Row]) -> tuple[list[CatalogueItem], dict[int, str]]:
        """The items of a file's rows; and line -> what is wrong with one that is none."""
        if self.read is None:
            return [], {0: f"{self.name} makes its items up: wanted no file"}
        items, faults = [], {}
        for line, row in enumerate(rows, start=1):
            if missing := sorted(self.columns.keys() - row.keys()):
                faults[line] = f"wanted columns {', '.join(self.columns)}, found none of {', '.join(missing)}"
                continue
            try:
                items.append(self.read(row))
            except (ValueError, TypeError, KeyError) as error:
                faults[line] = f"{type(error).__name__}: {error}"[:300]
        return items, faults

    def check(self, item: CatalogueItem) -> list[Any] | None:
        """What grades an item, as data; None: the world verifies."""
        if not self.grader:
            return None
        told = {"options": dict(item.options)} if item.options else {}
        return [{"check": "grader", "name": self.grader, "reference": item.reference} | told]


@cache
def _list_own() -> Mapping[str, CatalogueEntry]:
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    return {entry.name: entry for module in modules for entry in module.ENTRIES}


def list_entries() -> list[CatalogueEntry]:
    """Every benchmark that comes along, by name."""
    return sorted(_list_own().values(), key=lambda entry: entry.name)


def find_entry(name: str) -> CatalogueEntry:
    """The benchmark of that name. Raises BadInputError."""
    if (entry := _list_own().get(name)) is None:
        raise BadInputError.at("name", f"wanted a benchmark of the catalogue, found none named {name!r:.80}")
    return entry
