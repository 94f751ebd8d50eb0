"""Our own server, asked byte for byte what a test says."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from email.utils import parsedate_to_datetime
from socket import socket

import pytest

from tentalis.inbound import http1
from tentalis.inbound.connections import Connections
from tentalis.inbound.http1 import BrokenBodyError, Request, Response, Server, Stream
from tentalis.limits import LIMITS

FEW_S = 20.0
GET = b"GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"
PIECES = b"2\r\nhi\r\n1;x=y\r\n!\r\n0\r\nTrailer: 1\r\n\r\n"


class Service:
    """Says what it was asked; `/stream` in pieces, `/wait` when it is told to, `/deaf` without reading the body."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()
        self.has_begun = asyncio.Event()
        self.was_cancelled = asyncio.Event()
        self.written = 0
        self.was_read: list[str] = []

    async def handle(self, request: Request) -> Response | Stream:
        self.asked.append(f"{request.method} {request.path}")
        if request.path == "/recall":
            return Response(f"{request.recall(self.read_own)} {request.size}".encode())
        self.has_begun.set()
        if request.path == "/wait":
            await self.wait()
        if request.path == "/deaf":
            return Response(b"no", status=401)
        if request.path == "/stream":
            stream = request.begin_stream({"Content-Type": "text/plain"})
            for part in (b"", b"one", b"two"):
                await stream.write(part)
            await stream.end(b"!")
            return stream
        if request.path == "/flood":
            await self.flood(request.begin_stream({}))
        request.say_go_on()
        body = b""
        try:
            while part := await request.read():
                body += part
        except BrokenBodyError as error:
            return Response(str(error).encode(), status=400)
        return Response(f"{request.method} {request.path} {request.query} ".encode() + body, {"X-Own": "1"})

    def read_own(self, headers: Mapping[str, str]) -> str:
        self.was_read.append(headers.get("x-own", ""))
        assert "Content-Length" not in headers
        return self.was_read[-1]

    async def wait(self) -> None:
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.was_cancelled.set()
            raise

    async def flood(self, stream: Stream) -> None:
        try:
            while True:
                await stream.write(bytes(2**16))
                self.written += 2**16
        finally:
            self.was_cancelled.set()


def describe(status: int, words: str) -> Response:
    return Response(words.encode(), status=status)


@asynccontextmanager
async def serving(most: int = 100) -> AsyncIterator[tuple[Service, Server, int]]:
    service = Service()
    server = Server(service.handle, describe=describe, connections=Connections(most))
    with closing(socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        await server.start([bound])
        try:
            yield service, server, bound.getsockname()[1]
        finally:
            server.stop_listening()
            await server.close(patience_s=0)


class Caller:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, raw: bytes) -> None:
        self.writer.write(raw)

    async def hear(self, *, has_body: bool = True) -> tuple[int, dict[str, str], bytes]:
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), FEW_S)).decode()
        lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        status, body = int(lines[0].split(" ")[1]), b""
        if has_body and headers.get("transfer-encoding") == "chunked":
            while size := int(await self.reader.readline(), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readline()
        elif has_body:
            body = await asyncio.wait_for(self.reader.readexactly(int(headers.get("content-length", 0))), FEW_S)
        return status, headers, body

    async def is_left(self) -> bool:
        """Nothing more comes."""
        return await asyncio.wait_for(self.reader.read(), FEW_S) == b""


@asynccontextmanager
async def calling(port: int) -> AsyncIterator[Caller]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Caller(reader, writer)
    finally:
        writer.close()


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


async def test_what_headers_say_is_read_once_while_they_say_the_same() -> None:
    async with serving() as (service, _, port), calling(port) as caller:
        for body, own, said in (
            (b"1", "a", b"a 1"),
            (b"22", "a", b"a 2"),
            (b"", "a", b"a 0"),
            (b"1", "b", b"b 1"),
            (b"1", "a", b"a 1"),
        ):
            caller.send(post("/recall", body, f"X-Own: {own}"))
            assert (await caller.hear())[2] == said
        caller.send(b"POST /recall HTTP/1.1\r\ncontent-LENGTH: 3\r\nX-Own: a\r\n\r\n333")
        assert (await caller.hear())[2] == b"a 3"
    assert service.was_read == ["a", "b", "a", "a"]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (post("/echo", b"hi"), b"POST /echo {} hi"),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + PIECES, b"POST /echo {} hi!"),
        (b"GET /a%2Fb%20%C3%A9?x=1&x=2&y= HTTP/1.1\r\n\r\n", "GET /a/b é {'y': '', 'x': '1'} ".encode()),
        (b"GET http://elsewhere/echo?x=1 HTTP/1.1\r\n\r\n", b"GET /echo {'x': '1'} "),
        (b"DELETE /%ff HTTP/1.1\r\n\r\n", "DELETE /\ufffd {} ".encode()),
        (post("/echo", b"hi", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c"), b"POST /echo {} hi"),
        (GET[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", b"GET /echo {} "),
        (
            b"POST /echo HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n"
            + PIECES,
            b"POST /echo {} hi!",
        ),
        (b"\r\n" + GET, b"GET /echo {} "),
    ],
)
async def test_a_request_is_answered_and_its_connection_kept(raw: bytes, said: bytes) -> None:
    async with serving() as (_, _, port), calling(port) as caller:
        for _ in range(2):
            caller.send(raw)
            status, headers, body = await caller.hear()
            assert (status, body, headers["x-own"]) == (200, said, "1")
            assert "connection" not in headers
            assert parsedate_to_datetime(headers["date"]).tzinfo is not None
        for byte in raw:  # however the network cuts it
            caller.send(bytes([byte]))
            await asyncio.sleep(0)
        assert (await caller.hear())[2] == said


async def test_many_requests_at_once_are_answered_in_their_order_and_one_at_a_time() -> None:
    async with serving() as (service, _, port), calling(port) as caller:
        caller.send(GET.replace(b"echo", b"wait") + b"".join(post("/echo", b"%d" % number) for number in range(50)))
        await service.has_begun.wait()
        assert service.asked == ["GET /wait"]
        service.may_answer.set()
        assert (await caller.hear())[2] == b"GET /wait {} "
        assert [(await caller.hear())[2] for _ in range(50)] == [b"POST /echo {} %d" % number for number in range(50)]


async def test_a_stream_comes_in_chunks_and_to_an_old_caller_until_the_end_of_the_connection() -> None:
    async with serving() as (_, _, port):
        async with calling(port) as caller:
            caller.send(post("/stream", b"") + GET)
            status, headers, body = await caller.hear()
            assert (status, headers["content-type"], body) == (200, "text/plain", b"onetwo!")
            assert (await caller.hear())[0] == 200
        async with calling(port) as caller:
            caller.send(b"POST /stream HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n")
            assert (await asyncio.wait_for(caller.reader.read(), FEW_S)).endswith(b"Connection: close\r\n\r\nonetwo!")


@pytest.mark.parametrize(
    ("head", "kept"),
    [
        (b"GET /echo HTTP/1.0\r\n\r\n", "close"),
        (b"GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "keep-alive"),
        (b"GET /echo HTTP/1.1\r\nConnection: close\r\n\r\n", "close"),
        (b"CONNECT elsewhere:443 HTTP/1.1\r\n\r\n", "close"),
    ],
)
async def test_a_connection_is_kept_as_long_as_its_caller_wants_it(head: bytes, kept: str) -> None:
    async with serving() as (_, _, port), calling(port) as caller:
        caller.send(head)
        status, headers, _ = await caller.hear()
        assert (status, headers["connection"]) == (200, kept)
        if kept == "close":
            assert await caller.is_left()
        else:
            caller.send(head)
            assert (await caller.hear())[0] == 200


async def test_head_is_answered_without_a_body() -> None:
    async with serving() as (_, _, port), calling(port) as caller:
        caller.send(GET.replace(b"GET", b"HEAD") + GET)
        status, headers, _ = await caller.hear(has_body=False)
        assert (status, headers["content-length"]) == (200, str(len("HEAD /echo {} ")))
        assert (await caller.hear())[2] == b"GET /echo {} "


LONG = b"x" * (LIMITS.header_bytes + LIMITS.address_bytes)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /echo HTTP/1.1\r\nA: " + LONG, 431),
        (b"GET /echo HTTP/1.1\r\nA: " + LONG[: LIMITS.header_bytes] + b"\r\n\r\n", 431),
        (b"GET /echo HTTP/1.1\r\n" + b"A: 1\r\n" * (LIMITS.header_lines + 1) + b"\r\n", 431),
        (b"GET /" + LONG[: LIMITS.address_bytes] + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET /" + LONG, 414),
        (b"POST /echo HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi!", 400),
        (b"POST /echo HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi", 400),
        (b"POST /echo HTTP/1.1\r\nContent-Length: 2, 2\r\n\r\nhi", 400),
        (b"POST /echo HTTP/1.1\r\nContent-Length: +2\r\n\r\nhi", 400),
        (b"POST /echo HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\nhi", 400),
        (b"POST /echo HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n" + PIECES, 400),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n" + PIECES, 400),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked, gzip\r\n\r\n" + PIECES, 400),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n" + PIECES, 400),
        (b"GET /echo HTTP/1.1\r\nA: 1\r\n folded: 2\r\n\r\n", 400),
        (b"GET /echo HTTP/1.1\nA: 1\n\n", 400),
        (b"GET /echo HTTP/1.1\r\nA: a\0b\r\n\r\n", 400),
        (b"GET /echo HTTP/2.0\r\n\r\n", 400),
        (b"GET /echo\r\n\r\n", 400),
        (b"BREW /echo HTTP/1.1\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    ],
)
async def test_what_is_no_request_or_too_long_a_head_is_refused_and_nothing_behind_it_is_heard(
    raw: bytes, status: int
) -> None:
    async with serving() as (service, _, port), calling(port) as caller:
        caller.send(GET + raw + GET)
        assert (await caller.hear())[0] == 200  # what stood before it was a request
        found, headers, _ = await caller.hear()
        assert (found, headers["connection"]) == (status, "close")
        assert await caller.is_left()
        assert service.asked == ["GET /echo"]


@pytest.mark.parametrize("rest", [b"zz\r\nhi\r\n", b"-2\r\nhi\r\n", b"2\r\nhi!\r\n", b"2;" + LONG + LONG])
async def test_a_body_that_is_not_what_its_head_says_is_refused(rest: bytes) -> None:
    async with serving() as (service, _, port), calling(port) as caller:
        caller.send(b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
        await service.has_begun.wait()
        caller.send(rest)
        status, headers, _ = await caller.hear()
        assert (status, headers["connection"]) == (400, "close")
        assert await caller.is_left()


async def test_a_trailer_that_goes_on_and_on_ends_the_connection() -> None:
    async with serving() as (_, _, port), calling(port) as caller:
        caller.send(b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: 1\r\n" * 100_000)
        assert (await caller.hear())[0] == 400
        assert await caller.is_left()


async def test_who_waits_to_be_told_is_told_to_go_on_but_not_by_who_reads_nothing() -> None:
    async with serving() as (_, _, port):
        async with calling(port) as caller:
            caller.send(post("/echo", b"hi", "Expect: 100-continue")[:-2])
            assert await caller.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            caller.send(b"hi")
            assert (await caller.hear())[2] == b"POST /echo {} hi"
        async with calling(port) as caller:
            caller.send(post("/deaf", b"hi", "Expect: 100-continue")[:-2])
            status, headers, _ = await caller.hear()
            assert (status, headers["connection"]) == (401, "close")


async def test_who_sends_more_than_is_read_hears_why_before_the_connection_ends() -> None:
    async with serving() as (_, _, port), calling(port) as caller:
        caller.send(post("/deaf", bytes(2**22))[: 2**21])
        assert (await caller.hear())[:1] == (401,)
        caller.send(bytes(2**20))
        assert await caller.is_left()


async def test_no_more_of_a_body_is_held_than_somebody_reads() -> None:
    async with serving() as (service, server, port), calling(port) as caller:
        caller.send(post("/wait", bytes(2**24)))
        await service.has_begun.wait()
        connection = next(iter(server.open))
        while not connection._is_paused:
            await asyncio.sleep(0)
        assert connection._arriving is not None
        assert connection._arriving.held < 2 * http1.HELD_BYTES + 2**18
        service.may_answer.set()
        assert (await caller.hear())[0] == 200


async def test_no_more_of_a_stream_is_made_than_its_caller_reads_and_it_ends_when_they_go() -> None:
    async with serving() as (service, server, port):
        async with calling(port) as caller:
            caller.send(post("/flood", b""))
            await service.has_begun.wait()
            connection = next(iter(server.open))
            while not connection._is_full:
                await asyncio.sleep(0)
            made = service.written
            for _ in range(10):
                await asyncio.sleep(0)
            assert service.written == made
        await asyncio.wait_for(service.was_cancelled.wait(), FEW_S)


async def test_who_goes_away_is_no_longer_answered() -> None:
    async with serving() as (service, server, port):
        async with calling(port) as caller:
            caller.send(GET.replace(b"echo", b"wait") + GET)
            await service.has_begun.wait()
        await asyncio.wait_for(service.was_cancelled.wait(), FEW_S)
        assert service.asked == ["GET /wait"]
        assert not server.open


@pytest.mark.parametrize(
    ("raw", "said"),
    [(b"", b""), (b"GET /ec", b"408"), (GET, b"200"), (GET + b"GET", b"408"), (post("/echo", b"") + GET[:9], b"408")],
)
async def test_who_says_nothing_or_half_of_something_is_left(
    raw: bytes, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1, "LIMITS", dataclasses.replace(LIMITS, header_s=0.05, idle_s=0.05))
    async with serving() as (_, _, port), calling(port) as caller:
        caller.send(raw)
        heard = await asyncio.wait_for(caller.reader.read(), FEW_S)
        assert heard.split(b"HTTP/1.1 ")[-1][:3] == said


async def test_an_address_has_so_many_connections_and_gets_them_back() -> None:
    async with serving(most=1) as (_, server, port):
        async with calling(port) as caller:
            caller.send(GET)
            assert (await caller.hear())[0] == 200
            async with calling(port) as another:
                assert (await another.hear())[0] == 429
                assert await another.is_left()
        while server.open:
            await asyncio.sleep(0)
        async with calling(port) as caller:
            caller.send(GET)
            assert (await caller.hear())[0] == 200


async def test_stopping_ends_what_is_idle_and_lets_an_answer_be_given() -> None:
    async with serving() as (service, server, port), calling(port) as idle, calling(port) as caller:
        idle.send(GET)
        assert (await idle.hear())[0] == 200
        caller.send(GET.replace(b"echo", b"wait"))
        while len(service.asked) < 2:
            await asyncio.sleep(0)
        server.stop_listening()
        closing_all = asyncio.create_task(server.close(patience_s=FEW_S))
        assert await idle.is_left()
        service.may_answer.set()
        status, headers, _ = await caller.hear()
        assert (status, headers["connection"]) == (200, "close")
        await closing_all
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


async def test_what_is_not_answered_in_time_is_cut_when_the_server_stops() -> None:
    async with serving() as (service, server, port), calling(port) as caller:
        caller.send(GET.replace(b"echo", b"wait"))
        await service.has_begun.wait()
        await server.close(patience_s=0)
        await asyncio.wait_for(service.was_cancelled.wait(), FEW_S)


async def test_a_header_of_several_lines_is_not_written() -> None:
    async with serving() as (_, server, port), calling(port) as caller:
        server.handle = _split_answer
        caller.send(GET)
        assert await caller.is_left()


async def _split_answer(request: Request) -> Response:
    return Response(b"", {"X-Own": "1\r\nX-Other: 2"})
