"""The live feed of one web process: one LISTEN on Postgres, fanned out to every open page.

Postgres announces each audit entry when its transaction commits. The feed gathers ids for a moment, reads their rows
and the rights of all listeners once, and hands each listener what that user may see at this moment.
"""

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from channels.db import database_sync_to_async
from django.db import connection
from django.db.utils import Error as DatabaseError

from apps.console.selectors.live import (
    Announcement,
    Sight,
    find_announcements,
    find_announcements_since,
    find_latest_entry_id,
    find_sight,
)

logger = logging.getLogger(__name__)

CHANNEL = "tentalis_live"
GATHER_S = 0.1
RETRIES_S = (0.5, 1.0, 2.0, 5.0)
BACKLOG = 2000
PARAMETERS = ("host", "port", "dbname", "user", "password", "sslmode", "sslrootcert", "sslcert", "sslkey")


class Listener:
    """One open page's place in the feed. One that cannot keep up is dropped; it comes back and replays."""

    def __init__(self, user_id: int) -> None:
        self.user_id = user_id
        self._waiting: asyncio.Queue[Announcement | None] = asyncio.Queue(BACKLOG)

    def offer(self, announcement: Announcement) -> None:
        try:
            self._waiting.put_nowait(announcement)
        except asyncio.QueueFull:
            while not self._waiting.empty():
                self._waiting.get_nowait()
            self._waiting.put_nowait(None)

    async def next(self) -> Announcement | None:
        """The next announcement; None when some were lost."""
        return await self._waiting.get()


class Feed:
    """Listens while anybody does."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._task: asyncio.Task[None] | None = None
        self._is_listening = asyncio.Event()
        self._last_id = 0

    async def join(self, listener: Listener) -> None:
        """Returns once Postgres listens, so that what is committed from then on reaches the listener."""
        self._listeners.add(listener)
        if self._task is None:
            self._task = asyncio.create_task(self._listen(), name="live feed")
        await self._is_listening.wait()

    async def leave(self, listener: Listener) -> None:
        self._listeners.discard(listener)
        if not self._listeners and self._task is not None:
            task, self._task = self._task, None
            self._is_listening.clear()
            self._last_id = 0
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _listen(self) -> None:
        failures = 0
        while True:
            try:
                async with await _connect() as listening:
                    await listening.execute(f"LISTEN {CHANNEL}")
                    await self._catch_up()
                    self._is_listening.set()
                    failures = 0
                    while True:
                        ids = {int(item.payload) async for item in listening.notifies(stop_after=1)}
                        ids |= {int(item.payload) async for item in listening.notifies(timeout=GATHER_S)}
                        await self._spread(await database_sync_to_async(find_announcements)(ids))
            except (psycopg.Error, DatabaseError, OSError) as error:
                self._is_listening.clear()
                wait_s = RETRIES_S[min(failures, len(RETRIES_S) - 1)]
                failures += 1
                logger.warning("live feed lost Postgres (%s); again in %.1f s", type(error).__name__, wait_s)
                await asyncio.sleep(wait_s)

    async def _catch_up(self) -> None:
        """Announce what was committed while nobody listened. A first start has missed nothing: pages replay."""
        if not self._last_id:
            self._last_id = await database_sync_to_async(find_latest_entry_id)()
            return
        for page in await database_sync_to_async(lambda after: list(find_announcements_since(after)))(self._last_id):
            await self._spread(page)

    async def _spread(self, announcements: Collection[Announcement]) -> None:
        listeners = list(self._listeners)
        sight: Sight = await database_sync_to_async(find_sight)({one.user_id for one in listeners}, announcements)
        for announcement in announcements:
            self._last_id = max(self._last_id, announcement.id)
            for listener in listeners:
                if sight.covers(listener.user_id, announcement):
                    listener.offer(announcement)


async def _connect() -> psycopg.AsyncConnection[Any]:
    given = connection.get_connection_params()
    wanted = {name: given[name] for name in PARAMETERS if given.get(name)}
    return await psycopg.AsyncConnection.connect(**wanted, autocommit=True, application_name="tentalis live")


_feeds: WeakKeyDictionary[asyncio.AbstractEventLoop, Feed] = WeakKeyDictionary()


def current_feed() -> Feed:
    """The feed of the running event loop: one in a web process."""
    loop = asyncio.get_running_loop()
    if loop not in _feeds:
        _feeds[loop] = Feed()
    return _feeds[loop]
