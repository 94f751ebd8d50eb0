"""The live feed of one web process: one LISTEN on Postgres, fanned out to every open page.

Postgres announces each audit entry when its transaction commits. The feed gathers ids for a moment, reads their rows
and the rights of all listeners once, and makes one batch for all who may see the same. What it read lately it keeps,
so that pages which come back together after a cut replay from memory and not from five hundred queries.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from channels.db import database_sync_to_async
from django.db import connection
from django.db.utils import Error as DatabaseError

from apps.accounts.models import ApiToken
from apps.audit.kinds import Kind
from apps.base.tasks import cancel_and_wait
from apps.console.selectors.live import (
    LATE_COMMIT,
    Announcement,
    AnnouncementBatch,
    Sight,
    find_announcements,
    find_announcements_since,
    find_last_announcements,
    find_sight,
)

T = TypeVar("T")
logger = logging.getLogger(__name__)

CHANNEL = "tentalis_live"
GATHER_S = 0.1
RETRIES_S = (0.2, 0.5, 1.0, 2.0)
BACKLOG = 1000
LOOKED_AFTER_EVERY_S = 3.0
MOST_PER_SESSION = 24
MOST_PER_USER = 100
"""Open sockets of one browser or token, and of one user, in each web process."""
KEPT = 20_000
"""Announcements of the last minutes, about 10 MB."""
ENDS_SIGHT = frozenset({Kind.MEMBER_REMOVED, Kind.MEMBER_CHANGED, Kind.PROJECT_DELETED, Kind.TOKEN_REVOKED})
PARAMETERS = ("host", "port", "dbname", "user", "password", "sslmode", "sslrootcert", "sslcert", "sslkey")


class Listener:
    """One open socket's place in the feed. One that cannot keep up is dropped; it comes back and replays."""

    def __init__(self, user_id: int, session: str = "", token: ApiToken | None = None) -> None:
        """Args: session: hash of the cookie it came with; "" where there is none to end. token: what it came with."""
        self.user_id = user_id
        self.session = session
        self.token = token
        self.came_with = token or session
        self.projects: frozenset[int] = frozenset()
        self._waiting: asyncio.Queue[AnnouncementBatch | None] = asyncio.Queue(BACKLOG)

    def offer(self, batch: AnnouncementBatch) -> None:
        try:
            self._waiting.put_nowait(batch)
        except asyncio.QueueFull:
            self.drop()

    def drop(self) -> None:
        """Forget what waits, and let the page know that it must come back."""
        while not self._waiting.empty():
            self._waiting.get_nowait()
        self._waiting.put_nowait(None)

    async def next(self) -> AnnouncementBatch | None:
        """The next batch; None when some were lost, or the user may not sign in any more."""
        return await self._waiting.get()


class Recent:
    """The last announcements in the order in which they were heard, and from when on there are no others."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._kept: deque[tuple[float, Announcement]] = deque()
        self._heard: dict[int, tuple[float, Announcement]] = {}
        self._complete_from: datetime | None = None
        self._answers: dict[int, list[Announcement]] = {}

    def begin(self, announcements: Iterable[Announcement], *, complete_from: datetime, now_s: float) -> None:
        """Start anew with what was read. Of what is newer than `complete_from` nothing is missing or will be."""
        self._kept.clear()
        self._heard.clear()
        self._complete_from = complete_from
        self.add(announcements, now_s=now_s)

    def add(self, announcements: Iterable[Announcement], *, now_s: float) -> None:
        """Args: now_s: of a clock that only goes on."""
        self._answers.clear()
        for announcement in announcements:
            if announcement.id in self._heard:
                continue
            heard = (now_s, announcement)
            self._kept.append(heard)
            self._heard[announcement.id] = heard
        while len(self._kept) > self._most:
            _, oldest = self._kept.popleft()
            del self._heard[oldest.id]
            self._complete_from = max(self._complete_from or oldest.at, oldest.at)

    def since(self, after: int) -> list[Announcement] | None:
        """What a page that last heard of `after` may have missed, by id; None where only the database knows.

        A page may come from another web process, which heard things in another order: so look back a little.
        """
        if after not in self._heard or self._complete_from is None:
            return None
        heard_s, heard = self._heard[after]
        if heard.at - LATE_COMMIT <= self._complete_from:
            return None
        if after not in self._answers:  # pages that lost their sockets together ask the same
            self._answers[after] = sorted(self._find_since(heard_s, heard), key=lambda item: item.id)
        return self._answers[after]

    def _find_since(self, heard_s: float, heard: Announcement) -> Iterator[Announcement]:
        from_at = heard.at - LATE_COMMIT
        for item_s, item in reversed(self._kept):
            if item_s < heard_s - 2 * LATE_COMMIT.total_seconds():
                break
            if item.id > heard.id or item.at > from_at:
                yield item


class Feed:
    """Listens while anybody does."""

    def __init__(self) -> None:
        self.recent = Recent()
        self._listeners: set[Listener] = set()
        self._task: asyncio.Task[None] | None = None
        self._is_listening = asyncio.Event()
        self._last_id: int | None = None
        self._asking: set[int] = set()
        self._looking: asyncio.Task[Sight] | None = None
        self._after: asyncio.Task[None] | None = None

    def seat(self, listener: Listener) -> bool:
        """Give the listener a place; False where its browser or token, or its user, has as many as they may."""
        users = [one for one in self._listeners if one.user_id == listener.user_id]
        same = [one for one in users if one.came_with and one.came_with == listener.came_with]
        if len(users) >= MOST_PER_USER or len(same) >= MOST_PER_SESSION:
            return False
        self._listeners.add(listener)
        return True

    async def join(self, listener: Listener) -> None:
        """Returns once Postgres listens, so that what is committed from then on reaches the listener."""
        if self._task is None:
            self._task = asyncio.create_task(self._listen(), name="live feed")
            self._after = asyncio.create_task(self._look_after_all(), name="live sessions")
        await self._is_listening.wait()

    async def leave(self, listener: Listener) -> None:
        self._listeners.discard(listener)
        if not self._listeners and self._task is not None:
            task, self._task = self._task, None
            self._is_listening.clear()
            self._last_id = None
            after, self._after = self._after, None
            await cancel_and_wait(task)
            await cancel_and_wait(after)

    async def find_sight(self, user_id: int) -> Sight:
        """This user's rights as they are now; who asks at the same time is answered together."""
        self._asking.add(user_id)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="live rights")
        return await asyncio.shield(self._looking)

    async def _look(self) -> Sight:
        await asyncio.sleep(GATHER_S)
        asking, self._asking, self._looking = self._asking, set(), None
        return await _read(find_sight, asking)

    async def _look_after_all(self) -> None:
        while True:
            await asyncio.sleep(LOOKED_AFTER_EVERY_S)
            with suppress(DatabaseError):
                await self._look_after()

    async def _look_after(self) -> None:
        """Close what a browser that is signed out now or a token that ended opened, or who has lost a project since."""
        listeners = list(self._listeners)
        sight = await _look_at(listeners)
        for one in listeners:
            if not _may_listen(one, sight) or one.projects - sight.list_projects(one.user_id):
                one.drop()

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
                        await self._spread(await _read(find_announcements, ids))
            except (psycopg.Error, DatabaseError, OSError) as error:
                self._is_listening.clear()
                wait_s = RETRIES_S[min(failures, len(RETRIES_S) - 1)]
                failures += 1
                logger.warning("live feed lost Postgres (%s); again in %.1f s", type(error).__name__, wait_s)
                await asyncio.sleep(wait_s)

    async def _catch_up(self) -> None:
        """Announce what was committed while nobody listened. A first start has missed nothing: pages replay."""
        if self._last_id is None:
            found, complete_from = await _read(find_last_announcements)
            self.recent.begin(found, complete_from=complete_from, now_s=time.monotonic())
            self._last_id = max((item.id for item in found), default=0)
            return
        missed: list[list[Announcement]] = await _read(list, find_announcements_since(self._last_id))
        for page in missed:
            await self._spread(page)

    async def _spread(self, announcements: Sequence[Announcement]) -> None:
        """Make one batch for all who may see the same; a user who may not sign in any more is shown the door."""
        self.recent.add(announcements, now_s=time.monotonic())
        listeners = list(self._listeners)
        sight = await _look_at(listeners, announcements)
        made: dict[tuple[int, ...], AnnouncementBatch] = {}
        batches: dict[tuple[int, ApiToken | None], AnnouncementBatch] = {}
        for user_id, token in {(one.user_id, one.token) for one in listeners}:
            seen = [item for item in announcements if sight.covers(user_id, item, token)]
            if seen:
                batches[user_id, token] = made.setdefault(tuple(item.id for item in seen), AnnouncementBatch(seen))
        for listener in listeners:
            if not _may_listen(listener, sight):
                listener.drop()
            elif batch := batches.get((listener.user_id, listener.token)):
                listener.offer(batch)
        self._last_id = max(self._last_id or 0, *(item.id for item in announcements), 0)
        if any(item.kind in ENDS_SIGHT for item in announcements):
            await self._look_after()


async def _look_at(listeners: Sequence[Listener], announcements: Sequence[Announcement] | None = None) -> Sight:
    sessions = {one.session for one in listeners if one.session}
    tokens = {one.token.pk for one in listeners if one.token}
    return await _read(find_sight, {one.user_id for one in listeners}, announcements, sessions, tokens)


def _may_listen(listener: Listener, sight: Sight) -> bool:
    is_signed_in = not listener.session or (listener.session, listener.user_id) in sight.sessions
    holds = listener.token is None or listener.token.pk in sight.tokens
    return is_signed_in and holds and listener.user_id in sight.active


async def _read(do: Callable[..., T], *given: Any) -> T:
    """In a thread of its own: asgiref's one thread is full of sign-ins when many pages come back at once."""
    read: T = await database_sync_to_async(do, thread_sensitive=False)(*given)
    return read


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
