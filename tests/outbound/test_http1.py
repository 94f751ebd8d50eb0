"""Our own client, against servers that answer byte for byte what a test says."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tentalis.limits import LIMITS
from tentalis.outbound.addresses import BlockedAddressError
from tentalis.outbound.http1 import HELD_BYTES, Answer, BrokenError, Client, Target, UnreachedError, read_target

OK = b"HTTP/1.1 200 OK\r\n"
SHORT = OK + b"Content-Length: 2\r\n\r\nhi"


class Server:
    """Answers each request with the next of its answers; None: with nothing, for ever."""

    def __init__(self, answers: Sequence[bytes | None], *, hangs_up: bool) -> None:
        self.answers = list(answers)
        self.hangs_up = hangs_up
        self.connections = 0
        self.heard = b""
        self.was_left = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.answers and (head := await reader.readuntil(b"\r\n\r\n")):
                self.heard += head + await reader.readexactly(int(head.partition(b"Content-Length: ")[2].split()[0]))
                if (answer := self.answers.pop(0)) is None:
                    await reader.read()
                    break
                writer.write(answer)
                await writer.drain()
            if not self.hangs_up:
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.was_left.set()
            writer.close()


@asynccontextmanager
async def serving(*answers: bytes | None, hangs_up: bool = False) -> AsyncIterator[tuple[Server, Target]]:
    server = Server(answers, hangs_up=hangs_up)
    running = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    async with running:
        yield server, read_target(f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}/v1/chat?x=1")


async def ask(client: Client, target: Target, body: bytes = b"{}", silence_s: float = 30, **headers: str) -> Answer:
    return await client.ask(target, body, headers, silence_s=silence_s, allow_private=True)


async def read(answer: Answer) -> bytes:
    parts = []
    while part := await answer.read():
        parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    ("raw", "said", "hangs_up"),
    [
        (SHORT, b"hi", False),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n1;x=y\r\n!\r\n0\r\nTrailer: 1\r\n\r\n", b"hi!", False),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + SHORT, b"hi", False),
        (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", b"hi", False),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", b"until the end", True),
        (OK + b"Connection: close\r\n\r\nuntil the end", b"until the end", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", False),
    ],
)
async def test_an_answer_is_read_however_its_end_is_told(raw: bytes, said: bytes, hangs_up: bool) -> None:
    async with serving(raw, hangs_up=hangs_up) as (server, target):
        answer = await ask(Client({"A": "1"}), target, b"body", B="2")
        assert (await read(answer), await answer.read()) == (said, b"")
        assert (
            server.heard
            == b"POST /v1/chat?x=1 HTTP/1.1\r\nHost: %s\r\nA: 1\r\nB: 2\r\nContent-Length: 4\r\n\r\nbody"
            % (target.named.encode())
        )


async def test_a_connection_is_used_again_once_its_answer_is_whole_and_no_other() -> None:
    async with serving(SHORT, SHORT, OK + b"Content-Length: 2\r\nConnection: close\r\n\r\nhi", SHORT, None) as (
        server,
        target,
    ):
        client = Client({})
        for connections in (1, 1, 1, 2):
            assert await read(await ask(client, target)) == b"hi"
            assert server.connections == connections
        server.was_left.clear()
        asking = asyncio.create_task(ask(client, target))
        while server.answers:
            await asyncio.sleep(0)
        asking.cancel()
        await server.was_left.wait()
        assert not client._open


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        OK + b"Content-Length: 10\r\n\r\nhi",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nno size\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        OK + b"X: " + b"x" * LIMITS.header_bytes,
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"x" * LIMITS.header_bytes,
    ],
    ids=lambda raw: ascii(raw[:70]),
)
async def test_an_answer_that_is_none_or_not_whole_is_said_to_be_broken(raw: bytes) -> None:
    async with serving(raw, hangs_up=True) as (_, target):
        with pytest.raises(BrokenError):
            await read(await ask(Client({}), target))


async def test_what_came_before_the_end_is_read_before_it_is_told() -> None:
    async with serving(OK + b"Content-Length: 10\r\n\r\nhi", hangs_up=True) as (_, target):
        answer = await ask(Client({}), target)
        assert await answer.read() == b"hi"
        with pytest.raises(BrokenError):
            await answer.read()


@pytest.mark.parametrize("raw", [None, b"HTTP/1.1 200", OK + b"Content-Length: 10\r\n\r\nhi"])
async def test_a_silence_has_an_end(raw: bytes | None) -> None:
    async with serving(raw) as (_, target):
        with pytest.raises(TimeoutError):
            await read(await ask(Client({}), target, silence_s=0.05))


async def test_of_an_answer_that_nobody_reads_only_so_much_is_held() -> None:
    whole = b"x" * (8 * HELD_BYTES)
    async with serving(OK + b"Content-Length: %d\r\n\r\n%s" % (len(whole), whole)) as (_, target):
        answer = await ask(Client({}), target)
        while not answer._connection._is_paused:
            await asyncio.sleep(0)
        assert sum(map(len, answer._parts)) < 4 * HELD_BYTES
        assert await read(answer) == whole


async def test_a_header_of_two_lines_is_not_sent() -> None:
    async with serving(SHORT) as (server, target):
        with pytest.raises(ValueError, match="one line"):
            await ask(Client({}), target, Name="x\r\nOther: y")
        assert server.connections == 0


async def test_a_name_that_changes_its_mind_gains_nothing() -> None:
    async def resolve(host: str, port: int) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (one, port)) for one in ("93.184.215.14", "127.0.0.1")]

    async with serving(SHORT) as (server, target):
        with pytest.raises(UnreachedError, match="has no public address") as refused:
            await Client({}, resolve=resolve).ask(target._replace(host="evil.example"), b"", {}, silence_s=3)
        assert isinstance(refused.value.__cause__, BlockedAddressError)
        assert server.connections == 0
