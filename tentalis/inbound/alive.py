"""Whether a web process lives, answered by its event loop itself: no thread of the requests, no database, no Django.

A thread of its own asks the loop as well, and ends the process where the loop has said nothing for very long: who is
connected to it would wait for ever, while the other processes answer everybody else.
"""

import asyncio
import faulthandler
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)

STUCK_S = 60.0
STUCK_EXIT = 70
"""sysexits.h: an internal error."""

PATH = "/healthz"
BODY = b'{"status": "alive"}'


class AnswersAlive:
    """An ASGI application that answers GET and HEAD of `/healthz` before everything else."""

    def __init__(self, app: Any, *, watch: "LoopWatch | None" = None) -> None:
        self.app = app
        self.watch = watch

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.watch is not None:
            self.watch.begin()
        if scope["path"] != PATH or scope["method"] not in {"GET", "HEAD"}:
            await self.app(scope, receive, send)
            return
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())]
        headers += [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": BODY if scope["method"] == "GET" else b""})


class LoopWatch:
    """Ends the process when its event loop is stuck.

    Args:
        patience_s: so long the loop may say nothing.
        end: what is done then.
    """

    def __init__(self, patience_s: float = STUCK_S, end: Callable[[int], object] = os._exit) -> None:
        self._patience_s = patience_s
        self._end = end
        self._is_heard = True
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """Watch the running loop from now on."""
        if self._loop is not None:
            return
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._watch, name="loop-watch", daemon=True).start()

    def _hear(self) -> None:
        self._is_heard = True

    def _watch(self) -> None:
        asked_at = 0.0
        while self._loop is not None and not self._loop.is_closed():
            if self._is_heard:  # silence begins with a question, not with the last answer
                self._is_heard, asked_at = False, time.monotonic()
                try:
                    self._loop.call_soon_threadsafe(self._hear)
                except RuntimeError:  # it was closed meanwhile
                    return
            time.sleep(self._patience_s / 4)
            silent_s = time.monotonic() - asked_at
            if not self._is_heard and silent_s > self._patience_s:
                logger.critical("the event loop has said nothing for %.0f s: this process ends", silent_s)
                faulthandler.dump_traceback()
                self._end(STUCK_EXIT)
                return
