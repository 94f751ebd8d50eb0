"""Ending requests from outside: a scope has a deadline, and another thread can cancel it, which closes its sockets."""

import contextvars
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, ParamSpec, TypeVar

import httpx

P = ParamSpec("P")
T = TypeVar("T")


class RequestEndedError(httpx.TransportError):
    """The request was ended because its scope is over.

    Attributes:
        is_late: the scope's time ran out; else somebody cancelled it.
    """

    def __init__(self, message: str, *, is_late: bool) -> None:
        super().__init__(message)
        self.is_late = is_late


class CancelScope:
    """What requests made within it have in common: an end.

    Requests within a scope inside another end with either. Entered in one thread; cancelled from any.

    Args:
        limit_s: for everything within, from now on; None: as long as the scope around it.
    """

    def __init__(self, limit_s: float | None = None) -> None:
        self._around = _current.get()
        self.deadline = None if limit_s is None else time.monotonic() + limit_s
        if self._around is not None and self._around.deadline is not None:
            self.deadline = min(self._around.deadline, self.deadline or self._around.deadline)
        self._cancelled = ""
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> "CancelScope":
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)

    @property
    def is_cancelled(self) -> bool:
        return bool(self._cancelled) or (self._around is not None and self._around.is_cancelled)

    def cancel(self, reason: str) -> None:
        """End every request within, and those to come; a thread that waits for an answer wakes up at once."""
        with self._lock:
            self._cancelled = reason
            for one in self._sockets:
                # of a TLS socket too the one below: its own would take the session away from who reads in it
                with suppress(OSError):  # it is closed already
                    socket.socket.shutdown(one, socket.SHUT_RDWR)

    def require(self) -> None:
        """Raises RequestEndedError when the scope is over."""
        scope: CancelScope | None = self
        while scope is not None:
            if scope._cancelled:
                raise RequestEndedError(scope._cancelled, is_late=False)
            scope = scope._around
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise RequestEndedError("the time for it is over", is_late=True)

    def shorten(self, timeout_s: float | None) -> float | None:
        """A time limit that does not outlast the scope."""
        if self.deadline is None:
            return timeout_s
        left = max(0.001, self.deadline - time.monotonic())
        return left if timeout_s is None else min(timeout_s, left)

    @contextmanager
    def watching(self, connection: socket.socket) -> Iterator[None]:
        """Cancelling shuts this socket. A failure within that the scope caused is raised as RequestEndedError."""
        chain: list[CancelScope] = []
        scope: CancelScope | None = self
        while scope is not None:
            with scope._lock:
                scope._sockets.add(connection)
            chain.append(scope)
            scope = scope._around
        try:
            self.require()
            yield
        except RequestEndedError:
            raise
        except Exception:
            self.require()
            raise
        else:
            if self.is_cancelled:
                self.require()
        finally:
            for entered in chain:
                with entered._lock:
                    entered._sockets.discard(connection)


_current: contextvars.ContextVar[CancelScope | None] = contextvars.ContextVar("cancel_scope", default=None)


def current_scope() -> CancelScope | None:
    return _current.get()


class ScopedThreadPool(ThreadPoolExecutor):
    """A thread pool whose work belongs to the scope (and the other context) it was submitted in."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        run: Any = contextvars.copy_context().run
        return super().submit(run, fn, *args, **kwargs)
