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

__all__ = ["NEEDS", "CatalogueEntry", "CatalogueItem", "find_entry", "list_entries", "render"]

NEEDS: Final = ("network", "container", "gpu", "judge", "key", "file", "sandbox", "pictures")
"""What a benchmark may want that an installation need not have; `file`: its rows, which nothing here makes;
`pictures`: a model that looks at them."""
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
        grader: another than the entry's, where rows want different ones; "" for that.
        pictures: those of the row's columns that hold pictures, which are shown with the prompt.
        world_reference, seed: of an item that a world made up and verifies itself.
    """

    prompt: str
    reference: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    messages: Sequence[Mapping[str, Any]] = ()
    category: str = ""
    oracle: str | None = None
    grader: str = ""
    pictures: Sequence[str] = ()
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
        package: the distribution its rows come from; "" for none.
        origin: where its rows are public: `owner/name`, configuration and split, as the Hugging Face hub has them; ()
            for nowhere.
        tries: of each item, at first.
        synthetic: rows made up in the form of a file's, which prove template and grader from end to end.
        shared: share that the answer to another item gets at most, where the two are not the same.
        levels: how many `at_level` knows, from 0: each is an entry of its own, `NAME:LEVEL`.
    """

    name: str
    version: str
    about: str
    group: str
    licence: str
    environment: str = "chat"
    template: str = ""
    grader: str = ""
    columns: Mapping[str, str]
    read: Callable[[Row], CatalogueItem]
    make: Callable[[str, int, int], Iterator[Row]] | None = None
    sizes: Mapping[str, int] = field(default_factory=lambda: {"held_out": 100})
    needs: frozenset[str] = frozenset()
    package: str = ""
    origin: tuple[str, str, str] | tuple[()] = ()
    tries: int = 1
    synthetic: Callable[[int, int], Iterator[Row]] | None = None
    shared: float = 0.0
    levels: int = 0
    at_level: Callable[[int], "CatalogueEntry"] | None = None

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
        if self.make is None:
            columns = ", ".join(f"{name} ({about})" for name, about in self.columns.items())
            raise BadInputError.at("file", f"{self.name} needs its rows from a file: wanted columns {columns}")
        try:
            return [self.read(row) for row in islice(self.make(split, size, seed), size)]
        except ImportError as error:
            raise BadInputError.at("name", f"{self.name} wants the package {self.package}: {error}"[:300]) from None

    def read_rows(self, rows: Sequence[Row]) -> tuple[list[CatalogueItem], dict[int, str]]:
        """The items of a file's rows; and line -> what is wrong with one that is none."""
        items, faults = [], {}
        for line, row in enumerate(rows, start=1):
            if not isinstance(row, Mapping):
                faults[line] = f"wanted an object, found {type(row).__name__}"
                continue
            if missing := sorted(self.columns.keys() - row.keys()):
                faults[line] = f"wanted columns {', '.join(self.columns)}, found none of {', '.join(missing)}"[:300]
                continue
            try:
                items.append(self.read(row))
            except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
                faults[line] = f"{type(error).__name__}: {error}"[:300]
        return items, faults

    def check(self, item: CatalogueItem) -> list[Any] | None:
        """What grades an item, as data; None: the world verifies."""
        if not (name := item.grader or self.grader):
            return None
        told: dict[str, Any] = {"options": dict(item.options)} if item.options else {}
        if item.reference is not None:
            told["reference"] = item.reference
        return [{"check": "grader", "name": name, **told}]


@cache
def _list_own() -> Mapping[str, CatalogueEntry]:
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    return {entry.name: entry for module in modules for entry in getattr(module, "ENTRIES", ())}


def list_entries() -> list[CatalogueEntry]:
    """Every benchmark that comes along, by name."""
    return sorted(_list_own().values(), key=lambda entry: entry.name)


def find_entry(name: str) -> CatalogueEntry:
    """The benchmark of that name. Raises BadInputError."""
    if re.fullmatch(r"own/[a-z0-9][a-z0-9-]{0,80}", name):
        own: CatalogueEntry = import_module(f"{__name__}.own").open_own(name)
        return own
    plain, _, level = name.partition(":")
    entry = _list_own().get(plain)
    if level and entry is not None:
        if entry.at_level is None or not level.isdecimal() or not int(level[:9]) < entry.levels:
            levels = f"one of {entry.levels} levels, from 0" if entry.levels else "no level"
            raise BadInputError.at("name", f"{plain}: wanted {levels}, found {level!r:.40}")
        return entry.at_level(int(level))
    if entry is None:
        raise BadInputError.at("name", f"wanted a benchmark of the catalogue, found none named {name!r:.80}")
    return entry
