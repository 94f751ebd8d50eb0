"""Waiting for rows without holding a connection each: one look at the database for everybody who waits.

A look is a query every quarter of a second and process, however many wait, by a thread with a connection of its own.
Nothing can be missed: what a look finds is the row's state, not a message about it.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from django.db import connections
from django.db.utils import Error as DatabaseError

from apps.base.tasks import cancel_and_wait

logger = logging.getLogger(__name__)

LOOK_S = 0.25
MAX_WAITING = 500
"""In one process; who comes then is answered at once and asks again."""


Find = Callable[[Collection[Any]], list[Any]]


class RowWaiter:
    """Who waits for what, in one event loop.

    Args:
        find: which of some things need not be waited for any more: a row by its primary key, or with the state that
            whoever waits has seen.
    """

    def __init__(self, find: Find) -> None:
        self._find = find
        self._waiting: dict[Hashable, set[asyncio.Event]] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        return sum(len(events) for events in self._waiting.values())

    async def wait(self, thing: Hashable, *, timeout_s: float) -> None:
        """Returns when it need not be waited for, when the time is up, or at once when too many wait."""
        if self.count >= MAX_WAITING:
            return
        decided = asyncio.Event()
        self._waiting.setdefault(thing, set()).add(decided)
        if self._task is None:
            self._task = asyncio.create_task(self._look_on(), name="waiting")
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(decided.wait(), timeout_s)
        finally:
            await self._leave(thing, decided)

    async def _leave(self, thing: Hashable, decided: asyncio.Event) -> None:
        events = self._waiting[thing]
        events.discard(decided)
        if not events:
            del self._waiting[thing]
        if not self._waiting and self._task is not None:
            task, self._task = self._task, None
            await cancel_and_wait(task)

    async def _look_on(self) -> None:
        loop = asyncio.get_running_loop()
        thread = ThreadPoolExecutor(1, thread_name_prefix="waiting")
        try:
            while True:
                for found in await loop.run_in_executor(thread, self._look, list(self._waiting)):
                    for decided in self._waiting.get(found, ()):
                        decided.set()
                await asyncio.sleep(LOOK_S)
        finally:
            await loop.run_in_executor(thread, connections.close_all)
            thread.shutdown(wait=False)

    def _look(self, things: Collection[Any]) -> list[Any]:
        """[] while Postgres is away: it is looked again."""
        try:
            return self._find(things)
        except DatabaseError as error:
            logger.warning("what is waited for cannot be looked up (%s)", type(error).__name__)
            connections.close_all()
            return []


class LongPollHub:
    """One board for each event loop: one in a web process."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._boards: WeakKeyDictionary[asyncio.AbstractEventLoop, RowWaiter] = WeakKeyDictionary()

    @property
    def count(self) -> int:
        """How many wait, in all loops of the process."""
        return sum(board.count for board in list(self._boards.values()))

    def current(self) -> RowWaiter:
        """The board of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._boards:
            self._boards[loop] = RowWaiter(self._find)
        return self._boards[loop]
