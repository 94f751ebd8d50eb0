"""HTTP/1.1 for a server in an event loop, cheap enough for thousands of requests a second, with an end to everything
that may come before a request is whole. It knows no routes, cookies, files or compression of answers.

The parser is httptools (llhttp, as in Node and uvicorn). Why not uvicorn or aiohttp:
docs/adr/0078-the-gateways-own-http-server.md.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from email.utils import formatdate
from http import HTTPStatus
from socket import socket
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import httptools
from multidict import CIMultiDict

from tentalis.http1 import NO_BODY, Alarm, read_fields, write_fields
from tentalis.inbound.connections import Connections
from tentalis.limits import LIMITS

logger = logging.getLogger(__name__)

HELD_BYTES = 2**18
"""Of a body that is not read as fast as it comes; more waits at its caller."""
MOST_QUIET_BYTES = LIMITS.header_bytes + LIMITS.address_bytes
"""Bytes that are no body and end no head: a value, a name, a chunk's extension or a trailer that goes on and on."""
MOST_WAITING = 16
"""Requests that came before those before them are answered; while there are fewer, it is seen that a caller leaves."""
LINGER_S = 1.0
"""So long a caller may go on sending what nobody reads, so that it hears why."""
UNREADABLE = 400, "this is no HTTP/1.1 request"
_JOINED_BYTES = 2**14
_LENGTH = b"content-length"
_LENGTHS = frozenset({_LENGTH, b"Content-Length"})
_UNKNOWN = object()
T = TypeVar("T")
_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\nDate: " for status in HTTPStatus}


class BrokenBodyError(Exception):
    """A body that ends before it is whole, or is not what its head says."""


class _Headers(NamedTuple):
    """Headers of a request, and of those behind it that have the same; `known`: what was read of them, by reader."""

    named: "CIMultiDict[str]"
    known: dict[Any, Any]


class Response:
    """An answer that is known as a whole."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, body: bytes = b"", headers: Mapping[str, str] | None = None, *, status: int = 200) -> None:
        self.body = body
        self.headers: dict[str, str] = dict(headers or ())
        self.status = status


class Request:
    """One request, whose head has come.

    Attributes:
        target: as it was written. path: of it, decoded. headers: by name, in any case, without the body's length.
        size: bytes of its body as far as its head tells; 0 where that does not.
        address: of who is connected; "" where that is not known.
        is_whole: all of its body has come.
    """

    __slots__ = (
        "_connection", "_error", "_known", "_parts", "_waiter", "address", "headers", "held", "is_kept", "is_modern",
        "is_whole", "method", "path", "size", "target",
    )  # fmt: skip

    def __init__(
        self, connection: "_Connection", method: str, target: str, headers: "_Headers", *, size: int, is_modern: bool
    ) -> None:
        self.method = method
        self.target = target
        path = target.partition("?")[0] if target.startswith("/") else urlsplit(target).path or target
        self.path = unquote(path, errors="replace") if "%" in path else path
        self.headers = headers.named
        self._known = headers.known
        self.size = size
        self.address = connection.address
        self.is_modern = is_modern
        self.is_kept = True
        self.is_whole = False
        self.held = 0
        self._connection = connection
        self._parts: list[bytes] = []
        self._error: BrokenBodyError | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def query(self) -> dict[str, str]:
        """The first value of each name."""
        pairs = parse_qsl(self.target.partition("?")[2].partition("#")[0], keep_blank_values=True)
        return dict(reversed(pairs))

    def recall(self, read: Callable[[Mapping[str, str]], T]) -> T:
        """What a function reads of the headers: once for all requests in a row that say the same in them."""
        if (known := self._known.get(read, _UNKNOWN)) is _UNKNOWN:
            known = self._known[read] = read(self.headers)
        return cast(T, known)

    def take(self) -> bytes | None:
        """The body, where all of it is here; None where some of it is yet to come. Once."""
        if not self.is_whole:
            return None
        parts, self._parts = self._parts, []
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def read(self) -> bytes:
        """What has come of the body since; b"" at its end. Raises BrokenBodyError where it never will be whole."""
        while not self._parts:
            if self.is_whole:
                return b""
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        found, self._parts, self.held = b"".join(self._parts), [], 0
        self._connection.look_at_reading()
        return found

    def say_go_on(self) -> None:
        """To a caller who waits to hear that its body is wanted, as curl and .NET do with a large one."""
        if self.is_modern and not self._parts and self.headers.get("Expect", "").lower() == "100-continue":
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def begin_stream(self, headers: Mapping[str, str], *, status: int = 200) -> "Stream":
        """An answer whose parts are known one after the other."""
        return Stream(self._connection, self, status, headers)

    def add(self, data: bytes) -> None:
        self._parts.append(data)
        self.held += len(data)
        self._wake()

    def end(self, error: BrokenBodyError | None = None) -> None:
        """Nothing more of its body comes."""
        self._error = error
        self.is_whole = error is None
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Stream:
    """An answer that is sent as it is made. Its head goes with its first part, b"" where that is yet to come."""

    __slots__ = ("_connection", "_head", "_is_chunked")

    def __init__(self, connection: "_Connection", request: Request, status: int, headers: Mapping[str, str]) -> None:
        self._connection = connection
        self._is_chunked = request.is_modern
        request.is_kept &= request.is_modern  # its end is the connection's
        framing = "\r\nTransfer-Encoding: chunked" if request.is_modern else ""
        self._head = connection.write_head(request, status, headers, framing)

    async def write(self, data: bytes) -> None:
        """Returns when there is room for more. Raises ConnectionResetError where nobody reads any more."""
        await self._send(b"%x\r\n%b\r\n" % (len(data), data) if data and self._is_chunked else data)

    async def end(self, data: bytes = b"") -> None:
        """The last part; as `write`."""
        if self._is_chunked:
            data = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
        await self._send(data)

    async def _send(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        if data:
            self._connection.write(data)
        await self._connection.wait_for_room()


Handle = Callable[[Request], Awaitable[Response | Stream]]
"""Answers a request. Cancelled when its caller goes away; a stream that it hands back was ended."""


class Server:
    """Listens, and gives requests to `handle`.

    Args:
        describe: (status, words) of what is refused before there is a request -> its answer.
        connections: counts them by address.
    """

    def __init__(self, handle: Handle, *, describe: Callable[[int, str], Response], connections: Connections) -> None:
        self.handle = handle
        self.describe = describe
        self.by_address = connections
        self.open: set[_Connection] = set()
        self.is_stopping = False
        self._listening: list[asyncio.Server] = []
        self._date = 0, ""

    async def start(self, sockets: Sequence[socket]) -> None:
        """Args: sockets: bound, to listen at."""
        loop = asyncio.get_running_loop()
        self._listening = [
            await loop.create_server(lambda: _Connection(self), sock=each, backlog=1024) for each in sockets
        ]

    def stop_listening(self) -> None:
        """Take no new connection; those that are open end with the request that is on them."""
        self.is_stopping = True
        for each in self._listening:
            each.close()

    async def close(self, *, patience_s: float) -> None:
        """End all connections: those without a request now, the others when it is answered, but at most so late."""
        for connection in list(self.open):
            connection.close_idle()
        until = time.monotonic() + patience_s
        while self.open and time.monotonic() < until:
            await asyncio.sleep(0.01)
        for connection in list(self.open):
            connection.abort()
        await asyncio.sleep(0)

    def tell_date(self) -> str:
        now = int(time.time())
        if now != self._date[0]:
            self._date = now, formatdate(now, usegmt=True)
        return self._date[1]


class _Refused(Exception):
    """Ends the parsing."""


class _Connection(asyncio.Protocol):
    """One connection: requests are answered in their order, one at a time."""

    def __init__(self, server: Server) -> None:
        self.address = ""
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._alarm = Alarm(self._loop)
        self._target = b""
        self._fields: list[tuple[bytes, bytes]] = []
        self._last_fields: list[tuple[bytes, bytes]] = []
        self._headers = _Headers(CIMultiDict(), {})
        self._length_at = 0
        self._is_in_head = False
        self._quiet_bytes = 0
        self._head_bytes = self._piece_bytes = 0  # that a head may have at most: all since the piece the last ended in
        self._arriving: Request | None = None
        self._waiting: deque[Request] = deque()
        self._request: Request | None = None
        self._task: asyncio.Task[None] | None = None
        self._refusal: tuple[int, str] | None = None
        self._is_counted = self._is_deaf = self._is_lost = self._is_resumed = False
        self._is_full = self._is_paused = False
        self._room: asyncio.Future[None] | None = None

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._server.open.add(self)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if isinstance(peer, tuple) else ""
        self._is_counted = self._server.by_address.take(self.address)
        if self._is_counted:
            self._alarm.set(LIMITS.idle_s, self._end_waiting)
        else:
            self._refuse(429, f"{LIMITS.connections_per_address} connections from this address are open")

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = self._is_deaf = True
        self._alarm.cancel()
        self._server.open.discard(self)
        if self._is_counted:
            self._is_counted = False
            self._server.by_address.give_back(self.address)
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
        self._make_room()

    def pause_writing(self) -> None:
        self._is_full = True
        self.look_at_reading()

    def resume_writing(self) -> None:
        self._make_room()
        self.look_at_reading()

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        was_in_head = self._is_in_head
        self._piece_bytes = size = len(data)
        self._quiet_bytes += size
        self._head_bytes += size
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self._stop_hearing(*(self._refusal or self._find_excess() or UNREADABLE))
            return
        if self._quiet_bytes > MOST_QUIET_BYTES:
            self._stop_hearing(*(self._find_excess() or _beyond_head()))
        elif self._request is None and self._waiting:
            self._begin(self._waiting.popleft())
        elif self._request is None and self._is_in_head and not was_in_head:
            self._alarm.set(LIMITS.header_s, self._end_waiting)
        if self._waiting or self._arriving is not None:
            self.look_at_reading()

    # --- what the parser calls

    def on_message_begin(self) -> None:
        if self._is_resumed:
            return
        self._target, self._fields, self._is_in_head = b"", [], True

    def on_url(self, url: bytes) -> None:
        if not self._is_resumed:
            self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:  # else it is a body's trailer
            self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        if self._is_resumed:
            return
        excess = self._find_excess()
        self._is_in_head, self._quiet_bytes = False, 0
        fields, parser = self._fields, self._parser
        if excess is not None:
            self._give_up(*excess)
        if len(fields) > LIMITS.header_lines:
            self._give_up(431, f"wanted at most {LIMITS.header_lines} headers, found more")
        if self._head_bytes > LIMITS.header_bytes:
            size = 4 * len(fields)
            for name, value in fields:
                size += len(name) + len(value)
            if size > LIMITS.header_bytes:
                self._give_up(*_beyond_head())
        self._head_bytes = self._piece_bytes
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            self._give_up(*UNREADABLE)
        size = self._take_size(fields)
        if fields != self._last_fields:
            self._last_fields, self._headers = fields, _Headers(read_fields(fields), {})
        self._arriving = request = Request(
            self,
            parser.get_method().decode("latin-1"),
            self._target.decode("utf-8", "replace"),
            self._headers,
            size=size,
            is_modern=version == "1.1",
        )
        request.is_kept = parser.should_keep_alive()
        self._waiting.append(request)

    def _take_size(self, fields: list[tuple[bytes, bytes]]) -> int:
        """Take a body's length out of the headers: it alone is another in most requests of a caller."""
        at = self._length_at
        if at >= len(fields) or fields[at][0] not in _LENGTHS:
            found = (place for place, (name, _) in enumerate(fields) if name.lower() == _LENGTH)
            at = self._length_at = next(found, len(fields))
        return int(fields.pop(at)[1]) if at < len(fields) else 0  # the parser takes digits only

    def on_body(self, data: bytes) -> None:
        self._quiet_bytes = 0
        if self._arriving is not None:
            self._arriving.add(data)

    def on_message_complete(self) -> None:
        self._quiet_bytes = 0
        if self._arriving is not None and (self._arriving.method == "CONNECT" or not self._parser.should_upgrade()):
            self._arriving.end()
            self._arriving = None

    # --- what requests and their answers call

    def write(self, data: bytes) -> None:
        if not self._is_lost:
            self._transport.write(data)

    def write_head(self, request: Request, status: int, headers: Mapping[str, str], framing: str) -> bytes:
        request.is_kept &= request.is_whole and not self._server.is_stopping
        if not request.is_kept:
            framing += "\r\nConnection: close"
        elif not request.is_modern:
            framing += "\r\nConnection: keep-alive"
        head = f"{_LINES[status]}{self._server.tell_date()}{write_fields(headers)}{framing}\r\n\r\n"
        return head.encode("utf-8", "surrogateescape")

    async def wait_for_room(self) -> None:
        """Raises ConnectionResetError where nobody reads any more."""
        while self._is_full and not self._is_lost:
            if self._room is None:
                self._room = self._loop.create_future()
            await asyncio.shield(self._room)
        if self._is_lost:
            raise ConnectionResetError("the caller has gone")

    def look_at_reading(self) -> None:
        """Read on, or no more for now: what comes has to go somewhere."""
        arriving = self._arriving
        is_paused = self._is_full or (arriving is not None and arriving.held > HELD_BYTES)
        if waiting := self._waiting:
            is_paused |= len(waiting) > MOST_WAITING or sum(request.held for request in waiting) > HELD_BYTES
        if is_paused != self._is_paused and not self._is_lost:
            self._is_paused = is_paused
            if is_paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    # --- what the server calls

    def close_idle(self) -> None:
        if self._request is None:
            self._transport.close()

    def abort(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()

    # ---

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            request = self._waiting[-1]
            if request.method == "CONNECT":
                request.is_kept, self._is_deaf = False, True
                return
            # To what is not spoken here, so it is answered in HTTP/1.1. Its body was taken for the other protocol.
            coding = request.headers.get("Transfer-Encoding")
            framing = f"Content-Length: {request.size}" if coding is None else f"Transfer-Encoding: {coding}"
            head = f"POST / HTTP/1.1\r\n{framing}\r\n\r\n"
            self._parser, self._is_resumed = httptools.HttpRequestParser(self), True
            self._arriving = request
            self._parser.feed_data(head.encode("latin-1"))
            self._is_resumed = False
            if rest := data[upgrade.args[0] :]:
                self._parse(rest)

    def _find_excess(self) -> tuple[int, str] | None:
        """Of the address, before its head is over."""
        return _beyond_address() if self._is_in_head and len(self._target) > LIMITS.address_bytes else None

    def _begin(self, request: Request) -> None:
        self._alarm.rest()
        self._request = request
        self._task = self._loop.create_task(self._answer(request))

    async def _answer(self, request: Request) -> None:
        try:
            answer = await self._server.handle(request)
            if isinstance(answer, Response):
                self._send(request, answer)
        except (asyncio.CancelledError, ConnectionError):
            self._transport.abort()
            return
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            self._transport.abort()
            return
        self._finish(request)

    def _send(self, request: Request, answer: Response) -> None:
        if self._is_lost:
            return
        body, status = answer.body, answer.status
        framing = "" if status in NO_BODY else f"\r\nContent-Length: {len(body)}"
        head = self.write_head(request, status, answer.headers, framing)
        if request.method == "HEAD":
            body = b""
        if len(body) <= _JOINED_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))

    def _finish(self, request: Request) -> None:
        """A request was answered: go on to the next."""
        self._request = self._task = None
        if self._is_lost:
            return
        if not request.is_whole:
            self._linger()
        elif not request.is_kept:
            self._transport.close()
        elif self._waiting:
            self._begin(self._waiting.popleft())
            self.look_at_reading()
        elif self._refusal is not None:
            self._refuse(*self._refusal)
        else:
            self._alarm.set(LIMITS.header_s if self._is_in_head else LIMITS.idle_s, self._end_waiting)

    def _give_up(self, status: int, words: str) -> None:
        self._refusal = status, words
        raise _Refused

    def _stop_hearing(self, status: int, words: str) -> None:
        """What came is no request, or no end of one; those before it are answered yet."""
        self._is_deaf, self._refusal = True, (status, words)
        if self._arriving is not None:
            self._arriving.end(BrokenBodyError(words))
            self._arriving = None
        if self._request is None and self._waiting:
            self._begin(self._waiting.popleft())
        elif self._request is None:
            self._refuse(status, words)

    def _end_waiting(self) -> None:
        if self._is_in_head:
            self._refuse(408, f"wanted a request's headers within {LIMITS.header_s:g} s")
        else:
            self._transport.close()

    def _refuse(self, status: int, words: str) -> None:
        """Say why, where nothing is being answered, and close."""
        if self._transport.is_closing():
            return
        answer = self._server.describe(status, words)
        lines = f"{write_fields(answer.headers)}\r\nContent-Length: {len(answer.body)}\r\nConnection: close\r\n\r\n"
        self._transport.write(f"{_LINES[status]}{self._server.tell_date()}{lines}".encode() + answer.body)
        self._linger()

    def _linger(self) -> None:
        """End, but let what is still being sent come for a while: else the caller's end breaks before it has read."""
        self._is_deaf = True
        self._waiting.clear()
        self._arriving = None
        if not self._transport.is_closing():
            self.look_at_reading()
            self._transport.write_eof()
            self._alarm.set(LINGER_S, self._transport.abort)

    def _make_room(self) -> None:
        self._is_full = False
        if self._room is not None:
            self._room.set_result(None)
            self._room = None


def _beyond_address() -> tuple[int, str]:
    return 414, f"wanted an address of at most {LIMITS.address_bytes:,} bytes, found more"


def _beyond_head() -> tuple[int, str]:
    return 431, f"wanted headers of at most {LIMITS.header_bytes:,} bytes, found more"
