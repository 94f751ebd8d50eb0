"""Cache what the gateway reads of Postgres (routes, prices, credentials): a thread that listens and polls."""

import asyncio
import hashlib
import logging
import os
import selectors
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import psycopg
from django.db import close_old_connections, connection
from django.db.utils import Error as DatabaseError

from apps.base.errors import NotSignedInError
from apps.gateway.errors import RefusalError
from apps.gateway.loading import Credential, load_credentials, load_tables, read_digest, verify_token
from apps.gateway.pins import KnownTask, keep_pin, read_task
from apps.gateway.tables import Tables
from apps.operations.servers import say_now_away

logger = logging.getLogger(__name__)
T = TypeVar("T")

CHANNEL = "tentalis_live"
POLL_S = 0.5
GATHER_S = 0.05
AWAY_S = 0.5
REFUSALS_KEPT = 10_000
REFUSED_FOR_S = 1.0
TASKS_KEPT = 10_000


class ConfigCache:
    """What the edge goes by. Read in the event loop, refreshed from threads, replaced whole.

    While the database is away, what was known last goes on being true.

    Attributes:
        tables: of the last refresh.
        is_fresh: the database answered the last time it was asked.
        servers_away: model servers in use that do not answer, in words.
    """

    def __init__(self) -> None:
        self.tables = Tables()
        self.is_fresh = False
        self.servers_away: list[str] = []
        self._credentials: dict[bytes, Credential] = {}
        self._refused: dict[bytes, float] = {}
        self._tasks: dict[tuple[int, int], KnownTask] = {}
        self._digest = ""
        self._refreshing: asyncio.Task[None] | None = None
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._asking = ThreadPoolExecutor(2, thread_name_prefix="ask-database")
        self._thread = threading.Thread(target=self._watch, name="watch-database", daemon=True)

    async def start(self) -> None:
        """Load everything once, then keep it fresh. Raises django.db.Error where the database cannot be asked."""
        self._loop = asyncio.get_running_loop()
        await self.ask(self._refresh)
        self._woken, self._waker = os.pipe()
        self._thread.start()

    async def stop(self) -> None:
        self._stopping.set()
        os.close(self._waker)  # which wakes the thread
        await asyncio.to_thread(self._thread.join, POLL_S * 4)
        self._asking.shutdown(wait=False, cancel_futures=True)

    async def refresh(self) -> None:
        """Look again now: something was found to be out of date. However many ask for it at once, it is done once."""
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh_once())
        await asyncio.shield(self._refreshing)

    async def _refresh_once(self) -> None:
        try:
            await self.ask(self._refresh)
        except DatabaseError as error:
            logger.warning("the tables cannot be refreshed: %s", error)
        finally:
            self._refreshing = None

    def find_known(self, seal: bytes) -> Credential | None:
        """The credential of a token that was looked up before."""
        return self._credentials.get(seal)

    async def find_credential(self, text: str) -> Credential:
        """Raises NotSignedInError, or django.db.Error where an unknown token cannot be looked up."""
        seal = seal_token(text)
        if self._refused.get(seal, 0.0) > time.monotonic():
            raise NotSignedInError("this token is not valid: unknown, expired or revoked")
        try:
            found = await self.ask(lambda: verify_token(text))
        except NotSignedInError:
            if len(self._refused) >= REFUSALS_KEPT:
                self._refused.clear()
            self._refused[seal] = time.monotonic() + REFUSED_FOR_S
            raise
        self._credentials[seal] = found
        return found

    async def find_task(self, project: int, task: int) -> KnownTask | None:
        """A project's task; None where it has none of that id.

        Raises:
            RefusalError: 503: it is not known yet, and the database is away.
        """
        if (known := self._tasks.get((project, task))) is not None:
            return known
        try:
            found = await self.ask(lambda: read_task(project, task))
        except DatabaseError as error:
            message = f"task {task} is not known yet, and the database is away"
            raise RefusalError(message, status=503, code="unavailable", retry_after_s=2) from error
        if found is not None:
            if len(self._tasks) >= TASKS_KEPT:
                self._tasks.clear()
            self._tasks[project, task] = found
        return found

    async def pin(self, task: KnownTask, attempt: str, adapter: str) -> str:
        """Name of the adapter that answers a try from its first call on: this one, or what was noted before. While the
        database is away this process alone remembers it."""
        if attempt not in task.pins:
            try:
                adapter = await self.ask(lambda: keep_pin(task.pk, attempt, adapter))
            except DatabaseError as error:
                logger.warning("what answers try %s of task %d is not kept: %s", attempt, task.pk, error)
            task.pins.setdefault(attempt, adapter)
        return task.pins[attempt]

    async def ask(self, question: Callable[[], T]) -> T:
        """Run a function that uses the database in one of two threads kept for that."""
        return await asyncio.get_running_loop().run_in_executor(self._asking, _with_connection, question)

    def _watch(self) -> None:
        """Refresh at every audit entry, and every half second whether there was one or not."""
        while not self._stopping.is_set():
            try:
                self._refresh()
                connection.ensure_connection()  # one for all rounds: to prove who one is takes milliseconds
                raw = connection.connection
                raw.execute(f"LISTEN {CHANNEL}")
                if self._wait_for_entry(raw):
                    self._stopping.wait(GATHER_S)
            except (DatabaseError, psycopg.Error) as error:
                if self.is_fresh:
                    logger.warning("the database is away, going on with what is known: %s", error)
                self.is_fresh = False
                connection.close()
                self._stopping.wait(AWAY_S)
        connection.close()
        os.close(self._woken)

    def _wait_for_entry(self, raw: "psycopg.Connection[Any]") -> bool:
        """True once an audit entry is told of; False after half a second, or at the end, without one."""
        if [*raw.notifies(timeout=0)]:  # they came with the answers to questions
            return True
        with selectors.DefaultSelector() as waiting:
            waiting.register(raw.fileno(), selectors.EVENT_READ)
            waiting.register(self._woken, selectors.EVENT_READ)
            waiting.select(POLL_S)
        return bool([*raw.notifies(timeout=0)])

    def _refresh(self) -> None:
        with self._lock:
            known = dict(self._credentials)
            digest = read_digest({credential.key_id for credential in known.values()})
            if digest != self._digest or not self.is_fresh:
                tables = load_tables()
                holding = load_credentials({credential.key_id for credential in known.values()})
                self._loop.call_soon_threadsafe(self._replace, tables, known, holding)
                self._digest = digest
            self.servers_away = say_now_away()
            self.is_fresh = True

    def _replace(self, tables: Tables, known: dict[bytes, Credential], holding: dict[str, Credential]) -> None:
        self.tables = tables
        for seal, credential in known.items():
            if (fresh := holding.get(credential.key_id)) is not None:
                self._credentials[seal] = fresh
            else:
                self._credentials.pop(seal, None)


def seal_token(text: str) -> bytes:
    """What a token is known by here."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _with_connection(question: Callable[[], T]) -> T:
    close_old_connections()
    try:
        return question()
    finally:
        close_old_connections()
