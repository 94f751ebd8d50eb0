"""Waiting for decisions without holding a connection each: one look at the database for everybody who waits.

A look is a query every quarter of a second and process, however many wait, by a thread with a connection of its own.
Nothing can be missed: what a look finds is the row's state, not a message about it.
"""

import asyncio
import logging
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from weakref import WeakKeyDictionary

from django.db import connections
from django.db.utils import Error as DatabaseError

from apps.supervision.models import Proposal

logger = logging.getLogger(__name__)

LOOK_S = 0.25
MAX_WAITING = 500
"""In one process; who comes then is answered at once and asks again."""


class Board:
    """Who waits for which proposal, in one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[int, set[asyncio.Event]] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        return sum(len(events) for events in self._waiting.values())

    async def wait(self, proposal_id: int, *, timeout_s: float) -> None:
        """Returns when the proposal waits no more, when the time is up, or at once when too many wait."""
        if self.count >= MAX_WAITING:
            return
        decided = asyncio.Event()
        self._waiting.setdefault(proposal_id, set()).add(decided)
        if self._task is None:
            self._task = asyncio.create_task(self._look_on(), name="decisions")
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(decided.wait(), timeout_s)
        finally:
            await self._leave(proposal_id, decided)

    async def _leave(self, proposal_id: int, decided: asyncio.Event) -> None:
        events = self._waiting[proposal_id]
        events.discard(decided)
        if not events:
            del self._waiting[proposal_id]
        if not self._waiting and self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _look_on(self) -> None:
        loop = asyncio.get_running_loop()
        thread = ThreadPoolExecutor(1, thread_name_prefix="decisions")
        try:
            while True:
                for found in await loop.run_in_executor(thread, find_settled, list(self._waiting)):
                    for decided in self._waiting.get(found, ()):
                        decided.set()
                await asyncio.sleep(LOOK_S)
        finally:
            await loop.run_in_executor(thread, connections.close_all)
            thread.shutdown(wait=False)


def find_settled(proposal_ids: Collection[int]) -> list[int]:
    """Which of these wait no more, or are gone. [] while Postgres is away: they are looked for again."""
    try:
        pending = set(Proposal.objects.filter(pk__in=proposal_ids, state="pending").values_list("pk", flat=True))
    except DatabaseError as error:
        logger.warning("decisions cannot be looked for (%s)", type(error).__name__)
        connections.close_all()
        return []
    return [pk for pk in proposal_ids if pk not in pending]


_boards: WeakKeyDictionary[asyncio.AbstractEventLoop, Board] = WeakKeyDictionary()


def current_board() -> Board:
    """The board of the running event loop: one in a web process."""
    loop = asyncio.get_running_loop()
    if loop not in _boards:
        _boards[loop] = Board()
    return _boards[loop]
