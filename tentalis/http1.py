"""What both ends of an HTTP/1.1 connection need: a timer that is moved at no cost, and headers as they are written."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from math import inf

from multidict import CIMultiDict, istr

NO_BODY = frozenset({204, 304})


class Alarm:
    """One thing to do at one time, in a loop. Moved for each request: the loop's own timer is only made anew where it
    would be too late."""

    __slots__ = ("_call", "_due", "_loop", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due = inf
        self._call: Callable[[], None] = _do_nothing
        self._timer: asyncio.TimerHandle | None = None

    def set(self, in_s: float, call: Callable[[], None]) -> None:
        """Instead of what was to be called before."""
        self._due, self._call = self._loop.time() + in_s, call
        if self._timer is None or self._timer.when() > self._due:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(self._due, self._look)

    def rest(self) -> None:
        """Call nothing, until it is set again."""
        self._due = inf

    def cancel(self) -> None:
        """Call nothing any more, and hold on to nothing."""
        self._due, self._call = inf, _do_nothing
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._loop.time() >= self._due:
            self._call()
        elif self._due != inf:
            self._timer = self._loop.call_at(self._due, self._look)


def _do_nothing() -> None:
    pass


def read_fields(fields: Iterable[tuple[bytes, bytes]]) -> "CIMultiDict[str]":
    """Headers as they came, by name in any case."""
    return CIMultiDict(
        [(_NAMES.get(name) or _read_name(name), value.decode("utf-8", "surrogateescape")) for name, value in fields]
    )


_NAMES: dict[bytes, istr] = {}
"""Names that came before: the same few come with each request."""
_MOST_NAMES, _NAME_BYTES = 1024, 64


def _read_name(name: bytes) -> str:
    known = istr(name.decode("latin-1"))
    if len(_NAMES) < _MOST_NAMES and len(name) <= _NAME_BYTES:
        _NAMES[name] = known
    return known


def write_fields(headers: Mapping[str, str]) -> str:
    """Headers as lines, each behind a line's end. Raises ValueError where one would be several."""
    lines = "".join([f"\r\n{name}: {value}" for name, value in headers.items()])
    if lines.count("\r") + lines.count("\n") + lines.count("\0") != 2 * len(headers):
        raise ValueError("a header may not have more than one line")
    return lines
