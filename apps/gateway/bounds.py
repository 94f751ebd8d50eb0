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
    if _RULER.write(value) is None and is_deeper(value, LIMITS.gateway_json_depth):
        raise BeyondBoundsError("levels", LIMITS.gateway_json_depth)


def dump_flat(value: Any) -> bytes:
    """A value as JSON: to write it shows how deep it is. Raises as `require_flat`."""
    written = _RULER.write(value)
    if written is None:
        require_flat(value)
        written = orjson.dumps(value)
    return written


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
        self._levels = max(1, _WRITTEN_LEVELS - LIMITS.gateway_json_depth)
        for _ in range(self._levels - 1):
            self._outer = [self._outer]

    def write(self, value: Any) -> bytes | None:
        """A value as JSON; None where it is deeper than may be, or the ruler too short to tell."""
        if LIMITS.gateway_json_depth >= _WRITTEN_LEVELS:
            return None
        self._inner.append(value)
        try:
            return orjson.dumps(self._outer)[self._levels : -self._levels]
        except TypeError:
            return None
        finally:
            self._inner.clear()


_WRITTEN_LEVELS = _count_written()
_RULER = _Ruler()
