"""The machines that the leaderboard's functions belong to: its own classes, each episode's apart from all others'.

They run in this process, so what a model asks of them is bounded: numbers, texts, and how large a state may grow.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from decimal import localcontext
from functools import cache
from hashlib import sha256
from importlib import import_module
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from apps.worlds.bfcl.rows import BfclRow, find_module

MOST_NUMBER: Final = 10**18
MOST_CHARS: Final = 20_000
"""Of a text that a model gives."""
MOST_ENTRIES: Final = 1_000
MOST_SMALL: Final = 1_000
SMALL: Final = frozenset({"precision", "decimal_places", "exponent"})
"""Arguments whose size is time that the call takes."""
MOST_STATE: Final = 5_000_000
"""Characters of a state, each thing in it counted as some more."""
A_THING: Final = 50
MOST_DEPTH: Final = 60
_STATELESS: Final = frozenset({"MathAPI"})
_UNSEEN: Final = frozenset({"parent", "_last_modified", "_api_description"})
"""Attributes that say nothing of a state: a directory stands in its parent, and no call tells the others."""
_ACTING: Final = threading.Lock()
"""One call at a time: some keep what they give back in their module."""


class TooLargeError(Exception):
    """A state that is no longer looked at."""


class Machines:
    """Those of one conversation, from its beginning on."""

    def __init__(self, row: BfclRow) -> None:
        is_long = "long_context" in row.category
        self._all = {name: _begin(name, row.config.get(name, {}), is_long) for name in row.classes}

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What a function gives back, in the leaderboard's words; one that fails says so."""
        if words := _find_excess(arguments):
            return f"Error during execution: {words}"
        owner = next((one for one in self._all.values() if callable(getattr(one, name, None))), None)
        if owner is None or name.startswith("_"):
            return f"Error during execution: name {name!r} is not defined"
        with _ACTING, localcontext():
            try:
                return _write_result(getattr(owner, name)(**deepcopy(dict(arguments))))  # some keep what they are given
            except Exception as error:  # noqa: BLE001  # whatever it is, it is what the function says
                return f"Error during execution: {error}"

    def tell(self) -> dict[str, Any]:
        """What the leaderboard compares, as data: attributes that anybody sees. Raises TooLargeError."""
        budget = _Budget()
        return {
            name: {key: budget.tell(value) for key, value in vars(one).items() if not key.startswith("_")}
            for name, one in self._all.items()
        }

    def hash(self) -> str:
        """The same for machines that everything goes on alike with. Raises TooLargeError."""
        budget = _Budget()
        told = {
            name: {key: budget.tell(value) for key, value in vars(one).items() if key != "_current_dir"}
            for name, one in self._all.items()
        }
        places = [list(_list_parents(one._current_dir)) for one in self._all.values() if hasattr(one, "_current_dir")]
        return sha256(repr((_order(told), places)).encode()).hexdigest()


def _begin(name: str, config: Mapping[str, Any], is_long: bool) -> Any:
    machine = _load_class(name)()
    if name not in _STATELESS:
        machine._load_scenario(deepcopy(config), long_context=is_long)
        vars(machine).update(deepcopy(vars(machine)))  # it may hold what its module gives to every other
    return machine


@cache
def _load_class(name: str) -> Any:
    module: Any = import_module(find_module(name))
    if hasattr(module, "mpmath"):  # it sets how many digits are computed, for all who use the library
        own = module.mpmath.mp.clone()
        module.mpmath = SimpleNamespace(mp=own, log=own.log)
    return getattr(module, name)


def _write_result(found: Any) -> str:
    if isinstance(found, str):
        return found
    if isinstance(found, dict):
        try:
            return json.dumps(found)
        except (TypeError, ValueError):
            return str(found)
    return str(found)


def _find_excess(arguments: Mapping[str, Any]) -> str:
    """What is too large among arguments; "" where nothing is."""
    for name, value in arguments.items():
        values = value if isinstance(value, list) else [value]
        if len(values) > MOST_ENTRIES:
            return f"{name}: wanted at most {MOST_ENTRIES} values"
        most = MOST_SMALL if name in SMALL else MOST_NUMBER
        for one in values:
            if isinstance(one, int | float) and not abs(one) <= most:
                return f"{name}: wanted a number of at most {most}"
            if isinstance(one, str) and len(one) > MOST_CHARS:
                return f"{name}: wanted at most {MOST_CHARS} characters"
            if isinstance(one, dict | list) and len(json.dumps(one)) > MOST_CHARS:
                return f"{name}: wanted at most {MOST_CHARS} characters"
    return ""


class _Budget:
    """How much of a state is still looked at."""

    def __init__(self) -> None:
        self.left = MOST_STATE

    def tell(self, value: Any, depth: int = 0) -> Any:
        """A value as data of its own."""
        self.left -= A_THING + (len(value) if isinstance(value, str) else 0)
        if self.left < 0 or depth > MOST_DEPTH:
            raise TooLargeError("the state is too large")
        if isinstance(value, dict):
            return {key: self.tell(one, depth + 1) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.tell(one, depth + 1) for one in value]
        if isinstance(value, set):
            return {self.tell(one, depth + 1) for one in value}
        if isinstance(value, Random):
            return sha256(repr(value.getstate()).encode()).hexdigest()
        if hasattr(value, "__dict__"):
            told = {key: self.tell(one, depth + 1) for key, one in vars(value).items() if key not in _UNSEEN}
            return {"": type(value).__name__, **told}
        return value


def _list_parents(place: Any) -> Iterator[str]:
    for _ in range(MOST_DEPTH):
        if place is None:
            return
        yield place.name
        place = place.parent


def _order(value: Any) -> Any:
    """The same for data that is equal."""
    if isinstance(value, dict):
        return sorted(((repr(key), _order(one)) for key, one in value.items()), key=lambda pair: pair[0])
    if isinstance(value, list):
        return list(map(_order, value))
    if isinstance(value, set):
        return sorted(map(repr, value))
    return value


def play_right(row: BfclRow) -> Sequence[Mapping[str, Any]]:
    """Of each turn, what its right calls give back and the state behind them."""
    machines, turns = Machines(row), list[Mapping[str, Any]]()
    for calls in row.right:
        results = [machines.call(name, arguments) for name, arguments in calls]
        turns.append({"results": results, "state": machines.tell()})
    return turns
