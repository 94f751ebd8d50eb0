"""HTTP/1.1 in an event loop, cheap enough for thousands of requests a second: kept connections, bounded silence, and no
socket to an address that may not be used. No redirects, no proxies, no compression: who asks decides about those.
"""

import asyncio
import socket
import ssl
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import httptools
from aiohappyeyeballs import start_connection
from multidict import CIMultiDict, istr

from tentalis.http1 import NO_BODY, Alarm, read_fields, write_fields
from tentalis.limits import LIMITS
from tentalis.outbound.addresses import refuse_unknown, require_allowed

CONNECT_S = 3.0
KEPT_S = 60.0
HELD_BYTES = 2**18
"""Of an answer that is not read as fast as it comes; more waits at its server."""
_SECOND_FAMILY_S = 0.25
_JOINED_BYTES = 2**14
_LENGTH, _CODING = istr("Content-Length"), istr("Transfer-Encoding")

Resolve = Callable[[str, int], Awaitable[Sequence[tuple[Any, ...]]]]
"""(host, port) -> as `socket.getaddrinfo` says it. Raises OSError."""


class BrokenError(ConnectionError):
    """The connection ended, or brought something that is no HTTP, before the answer was whole."""


class UnreachedError(ConnectionError):
    """Nobody took the question. Its cause is a BlockedAddressError where the address may not be used, a TimeoutError
    where it took too long, or another OSError."""


class Target(NamedTuple):
    """An address that is asked, in the pieces that asking takes."""

    is_secure: bool
    host: str
    port: int
    named: str
    path: str


def read_target(url: str) -> Target:
    """Raises ValueError where that is no http(s) address."""
    parts = urlsplit(url)
    is_secure = parts.scheme == "https"
    is_plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in {"http", "https"} or not parts.hostname or not is_plain:
        raise ValueError(f"wanted an address like http://host:port/path, found {url[:80]!r}")
    port = parts.port or (443 if is_secure else 80)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(is_secure, parts.hostname, port, parts.netloc.rpartition("@")[2], path)


class Answer:
    """An answer; its body is read as it comes.

    Attributes:
        status: 0 until its head has come. headers: their names in any case.
    """

    def __init__(self, connection: "_Connection") -> None:
        self.status = 0
        self.reason = ""
        self.headers: CIMultiDict[str] = CIMultiDict()
        self._connection = connection
        self._parts: deque[bytes] = deque()
        self._is_over = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def size(self) -> int:
        """Bytes of its body as far as its head tells; 0 where that does not."""
        told = self.headers.get(_LENGTH, "")
        return int(told) if told.isdecimal() else 0

    async def read(self) -> bytes:
        """What has come since; b"" at its end.

        Raises:
            BrokenError: it ends before it is whole. TimeoutError: its server is silent for too long.
        """
        while not self._parts:
            if self._is_over:
                return b""
            if self._error is not None:
                raise self._error
            await self._wait()
        found = self._parts.popleft() if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        if not self._is_over:
            self._connection.go_on()
        return found

    def close(self) -> None:
        """Let its server know that nobody reads on, unless all of it has come."""
        if not self._is_over:
            self._connection.close()

    async def start(self) -> None:
        """Wait for its head. Raises as `read` does."""
        while not self.status:
            if self._error is not None:
                raise self._error
            await self._wait()

    def take(self, data: bytes) -> None:
        self._parts.append(data)

    def end(self, error: Exception | None = None) -> None:
        """Nothing more of it comes."""
        self._error = error
        self._is_over = error is None
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter


class Client:
    """Connections to any number of servers; to be used inside one running loop.

    Args:
        headers: of every request, unless it has its own.
        connect_s: how long making a connection may take, None: as long as who asks waits.
        resolve: instead of the system's.
    """

    def __init__(
        self, headers: Mapping[str, str], *, connect_s: float | None = CONNECT_S, resolve: Resolve | None = None
    ) -> None:
        self._headers = headers
        self._connect_s = connect_s
        self._resolve = resolve or _resolve
        self._written: tuple[Mapping[str, str], bytes] = {}, write_fields(headers).encode()
        self._idle: dict[tuple[Any, ...], list[_Connection]] = defaultdict(list)
        self._open: set[_Connection] = set()

    async def ask(
        self,
        target: Target,
        body: bytes | None,
        headers: Mapping[str, str],
        *,
        silence_s: float,
        allow_private: bool = False,
    ) -> Answer:
        """POST a body, or GET without one, and wait for the head of the answer.

        Raises:
            UnreachedError: nobody took it. BrokenError: whoever did hung up.
            TimeoutError: it was silent for `silence_s`; so it may be while the answer is read.
            ValueError: a header is none.
        """
        verb, size = (b"GET", b"") if body is None else (b"POST", b"\r\nContent-Length: %d" % len(body))
        head = b"%b %b%b%b\r\n\r\n" % (verb, _write_head(target), self._write_fields(headers), size)
        key = target[:3], allow_private
        idle = self._idle[key]
        connection = idle.pop() if idle else await self._connect(target, allow_private=allow_private)
        connection.home = idle
        answer = connection.ask(head, body, silence_s)
        try:
            await answer.start()
        except BaseException:  # whoever waited may be gone
            answer.close()
            raise
        return answer

    def close(self) -> None:
        for connection in list(self._open):
            connection.close()

    def _write_fields(self, headers: Mapping[str, str]) -> bytes:
        """These headers and the client's own; the same mapping as last time says what it said then."""
        known, written = self._written
        if known is not headers:
            written = write_fields({**self._headers, **headers}).encode()
            self._written = headers, written
        return written

    async def _connect(self, target: Target, *, allow_private: bool) -> "_Connection":
        host = target.host.removesuffix(".")
        try:
            try:
                found = await self._resolve(target.host, target.port)
            except OSError:
                refuse_unknown(host, allow_private=allow_private)
                raise
            for *_, address in found:
                require_allowed(str(address[0]), host, allow_private=allow_private)
            async with asyncio.timeout(self._connect_s):
                plain = await start_connection(cast(Any, found), happy_eyeballs_delay=_SECOND_FAMILY_S, interleave=1)
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                context, name = (_make_context(), host) if target.is_secure else (None, None)
                try:
                    _, connection = await asyncio.get_running_loop().create_connection(
                        lambda: _Connection(self._open), sock=plain, ssl=context, server_hostname=name
                    )
                except BaseException:
                    plain.close()
                    raise
        except (OSError, UnicodeError) as error:
            raise UnreachedError(str(error)) from error
        return connection


class _Connection(asyncio.Protocol):
    """One connection: idle, or with one answer under way."""

    def __init__(self, open: set["_Connection"]) -> None:
        self.home: list[_Connection] = []
        self._open = open
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        # as aiohttp reads answers, too: servers are many
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._answer: Answer | None = None
        self._head: list[tuple[bytes, bytes]] = []
        self._reason = ""
        self._ends_with_connection = False
        self._bodiless = 0
        self._alarm = Alarm(self._loop)
        self._silence_s = 0.0
        self._heard_at = 0.0
        self._unsent = 0
        self._held = 0
        self._is_paused = False

    def ask(self, head: bytes, body: bytes | None, silence_s: float) -> Answer:
        self._answer = answer = Answer(self)
        self._silence_s, self._heard_at = silence_s, self._loop.time()
        self._unsent = len(head) + len(body or b"")
        self._bodiless = 0
        self._alarm.set(silence_s, self._look_at_silence)
        if self._transport.is_closing():
            self._fail(BrokenError("the connection was closed"))
        elif body is not None and len(body) > _JOINED_BYTES:
            self._transport.writelines((head, body))
        else:
            self._transport.write(head + (body or b""))
        return answer

    def go_on(self) -> None:
        """What came was taken."""
        self._held = 0
        if self._is_paused:
            self._is_paused = False
            self._heard_at = self._loop.time()
            self._transport.resume_reading()

    def close(self) -> None:
        self._fail(BrokenError("the connection was closed"))

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._open.add(self)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:
            self._fail(BrokenError("it speaks unasked"))
            return
        self._heard_at = self._loop.time()
        self._bodiless += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(BrokenError(f"what it says is no HTTP: {error}"))
            return
        if self._bodiless > LIMITS.header_bytes and self._answer is answer:
            self._fail(BrokenError(f"the answer's headers are longer than {LIMITS.header_bytes:,} bytes"))
        answer.wake()

    def eof_received(self) -> None:
        """Nothing more comes, and nothing is said any more."""

    def connection_lost(self, exc: Exception | None) -> None:
        answer = self._answer
        if exc is None and answer is not None and answer.status and self._ends_with_connection:
            self.on_message_complete()
        self._fail(BrokenError("it hung up"))

    # --- what the parser calls

    def on_message_begin(self) -> None:
        self._head = []

    def on_status(self, reason: bytes) -> None:
        self._reason = reason.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # 100 Continue, 103 Early Hints
            return
        assert self._answer is not None
        self._answer.reason = self._reason
        headers = self._answer.headers = read_fields(self._head)
        self._ends_with_connection = (
            _LENGTH not in headers and "chunked" not in headers.get(_CODING, "").lower() and status not in NO_BODY
        )
        self._answer.status = status

    def on_body(self, data: bytes) -> None:
        assert self._answer is not None
        self._answer.take(data)
        self._bodiless = 0
        self._held += len(data)
        if self._held > HELD_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        answer = self._answer
        if answer is None or not answer.status:
            return
        self._answer = None
        answer.end()
        self.go_on()
        if not self._parser.should_keep_alive() or self._transport.get_write_buffer_size():
            self._fail(BrokenError("it is not kept"))
        elif not self._transport.is_closing():
            self.home.append(self)
            self._alarm.set(KEPT_S, self.close)

    # ---

    def _look_at_silence(self) -> None:
        """A question that goes on leaving, and an answer that nobody reads, are no silence of its server."""
        now, unsent = self._loop.time(), self._transport.get_write_buffer_size()
        if self._is_paused or unsent < self._unsent:
            self._heard_at, self._unsent = now, unsent
        left_s = self._heard_at + self._silence_s - now
        if left_s > 0:
            self._alarm.set(left_s, self._look_at_silence)
        else:
            self._fail(TimeoutError(f"silent for {self._silence_s:g} s"))

    def _fail(self, error: Exception) -> None:
        """Nothing more is asked here."""
        self._alarm.cancel()
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.end(error)
        if self in self._open:
            self._open.discard(self)
            if self in self.home:
                self.home.remove(self)
            if answer is not None:
                self._transport.abort()
            else:
                self._transport.close()


@lru_cache(maxsize=256)
def _write_head(target: Target) -> bytes:
    return f"{target.path} HTTP/1.1\r\nHost: {target.named}".encode()


async def _resolve(host: str, port: int) -> Sequence[tuple[Any, ...]]:
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


@cache
def _make_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
