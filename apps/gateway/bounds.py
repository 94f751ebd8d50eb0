"""JSON from callers and model servers, read only where it is not too much and not too deep."""

import threading
from typing import Any, Literal

import orjson

from tentalis.core.json_bounds import has_more_values, is_deeper, is_surely_flat
from tentalis.limits import LIMITS

SHORT_BYTES = 4096
"""Of longer texts the brackets seldom tell enough."""


class BeyondBoundsError(Exception):
    """It holds more than is read.

    Attributes:
        bound: which is passed. most: what it is.
    """

    def __init__(self, bound: Literal["values", "levels"], most: int) -> None:
        super().__init__(bound)
        self.bound = bound
        self.most = most


def load_bounded(raw: bytes) -> Any:
    """What a text says.

    Raises:
        orjson.JSONDecodeError: it is no JSON. BeyondBoundsError: more values or levels than `LIMITS` says.
    """
    value = load_countable(raw)
    if len(raw) > SHORT_BYTES or not is_surely_flat(raw, LIMITS.gateway_json_depth):
        require_flat(value)
    return value


def load_countable(raw: bytes) -> Any:
    """As `load_bounded`, however deep: before anything goes through it, it has to pass `require_flat`."""
    if has_more_values(raw, LIMITS.json_values):
        raise BeyondBoundsError("values", LIMITS.json_values)
    return orjson.loads(raw)


def require_flat(value: Any) -> None:
    """Raise BeyondBoundsError where there are more levels than `LIMITS` says."""
    if not _RULER.shows_flat(value) and is_deeper(value, LIMITS.gateway_json_depth):
        raise BeyondBoundsError("levels", LIMITS.gateway_json_depth)


def _count_written() -> int:
    """How many levels orjson writes: it has an end there, and no name for it."""
    value: list[Any] = []
    for levels in range(1, 10_000):
        try:
            orjson.dumps(value)
        except TypeError:
            return levels - 1
        value = [value]
    return 0


class _Ruler(threading.local):
    """Lists within each other, of which so many are left to orjson's end as may be used: a value that is written inside
    them is not deeper. In a seventh of the time of looking at each value; one a thread, for what lies in it changes."""

    def __init__(self) -> None:
        self._inner: list[Any] = []
        self._outer = self._inner
        for _ in range(_WRITTEN_LEVELS - LIMITS.gateway_json_depth - 1):
            self._outer = [self._outer]

    def shows_flat(self, value: Any) -> bool:
        if LIMITS.gateway_json_depth >= _WRITTEN_LEVELS:
            return False
        self._inner.append(value)
        try:
            orjson.dumps(self._outer)
        except TypeError:
            return False
        finally:
            self._inner.clear()
        return True


_WRITTEN_LEVELS = _count_written()
_RULER = _Ruler()
