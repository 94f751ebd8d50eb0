"""Sandboxes made before they are asked for, of images that are asked for again and again.

The mounts of a sandbox wait for the kernel several times, which costs its maker nothing but time.
"""

import asyncio
import contextlib
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, Final, Generic, NamedTuple, TypeVar

from tentalis.sandbox.errors import SandboxError
from tentalis.sandbox.limits import Limits
from tentalis.sandbox.sandbox import Sandbox
from tentalis.sandbox.store import Image

OFTEN: Final = 16
"""Times that one is asked for with the same limits and shell before others of it are made beforehand: attempts at one
task may be many, and nobody comes back for its image."""
_MOST_COUNTED: Final = 256


class _Asked(NamedTuple):
    image: Image
    limits: Limits
    shell: str


Made = TypeVar("Made", bound=Sandbox)


class Prepared(Generic[Made]):
    """Some of them, each for the first who asks for its like."""

    def __init__(self, make: Callable[[Image, Limits, str], Awaitable[Made]], most: int) -> None:
        self._make = make
        self._most = most
        self._counts: OrderedDict[_Asked, int] = OrderedDict()
        self._ready: deque[tuple[_Asked, Made]] = deque()
        self._being_made = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def ready(self) -> int:
        return len(self._ready)

    def take(self, image: Image, limits: Limits, shell: str) -> Made | None:
        """One that is there, as if it were made now; None: there is none. Another one is made for whoever is next."""
        asked = _Asked(image, limits, shell)
        self._counts[asked] = self._counts.pop(asked, 0) + 1
        while len(self._counts) > _MOST_COUNTED:
            self._counts.popitem(last=False)
        found = self._pop(asked)
        while found is not None and found.is_over:  # it died while it waited
            self._end(found)
            found = self._pop(asked)
        if self._counts[asked] >= OFTEN:
            self._begin(asked)
        if found is not None:
            found.made_at = time.monotonic()
        return found

    def _pop(self, asked: _Asked) -> Made | None:
        for place, (which, made) in enumerate(self._ready):
            if which == asked:
                del self._ready[place]
                return made
        return None

    def _begin(self, asked: _Asked) -> None:
        """Make one, in the place of the oldest of another image where there are as many as there should be."""
        if len(self._ready) + self._being_made >= self._most:
            other = next((which for which, _ in self._ready if which != asked), None)
            made = self._pop(other) if other is not None else None
            if made is None:
                return
            self._end(made)
        self._being_made += 1
        self._in_background(self._add(asked))

    async def _add(self, asked: _Asked) -> None:
        try:
            with contextlib.suppress(SandboxError):  # whoever wants one is told
                self._ready.append((asked, await self._make(*asked)))
        finally:
            self._being_made -= 1

    def _end(self, made: Made) -> None:
        self._in_background(made.destroy())

    def _in_background(self, does: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(does)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wait(self) -> None:
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def drop(self, layers: Collection[str] | None = None) -> None:
        """End those that stand on one of these layers; None: all, and none is made any more."""
        if layers is None:
            self._most = 0
        elif not layers:
            return
        await self._wait()
        for asked, made in list(self._ready):
            if layers is None or not set(layers).isdisjoint(asked.image.layers):
                self._ready.remove((asked, made))
                self._end(made)
        await self._wait()
