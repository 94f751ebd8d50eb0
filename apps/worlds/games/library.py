"""textarena's games, one module at a time, with dice of their own.

The package's own `__init__` wants clients of model providers, chess and word lists that are fetched; a game wants none
of them. So while one is imported the package stands there empty, and holds what its games take from it. Behind that it
is gone again: who imports textarena in this process gets the package that is installed.
"""

import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from types import ModuleType
from typing import Any, Final

DISTRIBUTION: Final = "textarena"
KNOWN: Final = "0.7"
"""Its version; in others its parts may lie elsewhere."""
_OURS: Final[dict[str, ModuleType]] = {}
"""The empty package, and what was imported in it, by name."""
_STANDING: Final = threading.RLock()
_PLAYING: Final = threading.Lock()
"""One move at a time: all games roll the same dice, which each finds as it left them."""


class _Dice(random.Random):
    """What stands for the module `random` in the library."""

    Random = random.Random


_DICE: Final = _Dice()


def read_version() -> str:
    """Which one is installed; "none" where none is."""
    try:
        return distribution(DISTRIBUTION).version
    except PackageNotFoundError:
        return "none"


def find_package() -> bool:
    """Whether it is there, as it is known."""
    with _STANDING:  # threads that begin together would take each other's away
        return _find_package()


@cache
def _find_package() -> bool:
    try:
        place = distribution(DISTRIBUTION).locate_file(DISTRIBUTION)
    except PackageNotFoundError:
        return False
    package: Any = ModuleType(DISTRIBUTION)
    envs = ModuleType(f"{DISTRIBUTION}.envs")
    package.__path__, envs.__path__ = [str(place)], [f"{place}/envs"]
    _OURS.update({DISTRIBUTION: package, envs.__name__: envs})
    try:
        with _standing():
            for part in ("core", "state"):
                found = import_module(f"{DISTRIBUTION}.{part}")
                vars(package).update({key: value for key, value in vars(found).items() if key[0].isupper()})
                _quiet(found)
    except (ImportError, AttributeError):
        _OURS.clear()
        return False
    return True


@contextmanager
def _standing() -> Iterator[None]:
    """Within, its name is that of the empty package."""
    with _STANDING:
        theirs = _take_out()
        sys.modules.update(_OURS)
        try:
            yield
        finally:
            _OURS.update(_take_out())
            sys.modules.update(theirs)


def _take_out() -> dict[str, ModuleType]:
    return {name: sys.modules.pop(name) for name in [*sys.modules] if name.partition(".")[0] == DISTRIBUTION}


@cache
def load_game(module: str, name: str) -> Callable[..., Any]:
    """The class of a game.

    Args:
        module: of the package's `envs`.
    Raises:
        ImportError: the package is not there.
    """
    find_package()
    with _standing():
        game: Any = import_module(f"{DISTRIBUTION}.envs.{module}.env")
    _quiet(game)
    made: Callable[..., Any] = getattr(game, name)
    return made


def _quiet(module: Any) -> None:
    module.random = _DICE
    module.print = lambda *words, **settings: None  # some say how they get on


@contextmanager
def rolling(dice: Any) -> Iterator[Any]:
    """The dice as a game left them; gives a list that holds them behind it.

    Args:
        dice: a seed, or such a state.
    """
    with _PLAYING:
        if isinstance(dice, int):
            _DICE.seed(dice)
        else:
            _DICE.setstate(dice)
        left: list[Any] = []
        yield left
        left.append(_DICE.getstate())
