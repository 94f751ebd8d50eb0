"""`python -m tentalis.sandbox.proxy CONTROL LOGS`: the way out of sandboxes that have an allow list, and the only one.

A process of its own, without rights. The host hands it, for each such sandbox, a socket that listens on that sandbox's
own loopback; what connects there says HTTP CONNECT and a host:port of the list. Names are resolved here, and what they
lead to is looked at and is the address connected to. It ends with the host.
"""

import asyncio
import contextlib
import json
import os
import re
import resource
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final

from tentalis.outbound.addresses import check_url, is_allowed
from tentalis.sandbox import kernel
from tentalis.sandbox.system_calls import compile_filters

PROXY_ID: Final = 60_911
"""Its user and group when the host is root: in nobody's range, and not the sandboxes'."""
MAX_GUEST_BYTES: Final = 2**16
MAX_ASKED_BYTES: Final = 4_096
HEAD_WITHIN_S, CONNECT_WITHIN_S, IDLE_S = 10.0, 15.0, 120.0
MAX_TRIES: Final = 10_000
"""Connections of one sandbox, refused ones included."""
MAX_LOG_BYTES: Final = 4 * 2**20
LOG: Final = "network.log"
"""A line of JSON a connection; beside it the one before, when it had become long."""
_PIECE_BYTES: Final = 2**16
_ASKS: Final = "CONNECT "
_VERSIONS: Final = (" HTTP/1.1", " HTTP/1.0")
_PLACE: Final = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[0-9]{1,5}")

Place = tuple[str, int]


class RefusedError(Exception):
    """What was asked for is not done: an HTTP status, and why."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


def read_place(text: str) -> Place:
    """A host and a port; addresses in their one ordinary spelling, names in lower case.

    Raises:
        ValueError: it is no host:port, or what programs read in different ways.
    """
    try:
        if not _PLACE.fullmatch(text):
            raise ValueError
        origin = check_url(f"https://{text}")
    except ValueError:
        raise ValueError(f"wanted host:port with a name or an ordinary IP address, found {text[:80]!r}") from None
    with contextlib.suppress(ValueError):
        return str(ip_address(origin.host)), origin.port
    return origin.host.lower(), origin.port


def read_asked(head: bytes) -> Place:
    """Where a request asks to be connected to. Nothing counts but its first line."""
    line = head.partition(b"\r\n")[0].decode("latin-1")
    if not line.startswith(_ASKS):
        raise RefusedError(405, "this proxy does CONNECT and nothing else")
    if not line.endswith(_VERSIONS):
        raise RefusedError(400, "wanted CONNECT host:port HTTP/1.1")
    try:
        return read_place(line[len(_ASKS) : -len(_VERSIONS[0])])
    except ValueError as error:
        raise RefusedError(400, str(error)) from None


async def find_addresses(place: Place) -> list[str]:
    """What a place leads to that may be connected to: an address that was listed as one, or what is public of a name's.

    Raises:
        RefusedError: nothing.
    """
    host, port = place
    with contextlib.suppress(ValueError):
        return [str(ip_address(host))]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        raise RefusedError(502, f"{host} could not be resolved") from None
    public = [str(one[4][0]) for one in found if is_allowed(ip_address(one[4][0]), allow_private=False)]
    if not public:
        raise RefusedError(403, f"{host} leads to no public address; a private one has to be listed by its address")
    return public


@dataclass
class _Guest:
    """A sandbox, from its making to its end."""

    name: str
    allowed: frozenset[Place]
    most_connections: int
    left_bytes: int
    tries: int = 0
    talks: set["asyncio.Task[None]"] = field(default_factory=set)

    def count(self, size_bytes: int) -> None:
        self.left_bytes -= size_bytes
        if self.left_bytes < 0:
            raise RefusedError(403, "this sandbox has used up its bytes of network")


class Proxy:
    """One for all sandboxes of a host.

    Args:
        control: where the host hands over sandboxes.
        log: told each connection when it is over.
    """

    def __init__(self, control: socket.socket, log: Callable[[dict[str, Any]], None]) -> None:
        self._control = control
        self._log = log
        self._ended = asyncio.Event()
        self._guests: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Until the host is gone."""
        asyncio.get_running_loop().add_reader(self._control, self._admit)
        await self._ended.wait()

    def _admit(self) -> None:
        """Take in a sandbox, or say what its list should have been."""
        text, descriptors, _, _ = socket.recv_fds(self._control, MAX_GUEST_BYTES, 2, socket.MSG_CMSG_CLOEXEC)
        if not text:
            self._ended.set()
            return
        listener, lifeline = (socket.socket(fileno=number) for number in descriptors)
        order = json.loads(text)
        try:
            allowed = frozenset(read_place(place) for place in order["allow"])
        except ValueError as error:
            listener.close()
            lifeline.close()
            self._control.send(json.dumps({"error": f"allow: {error}"}).encode())
            return
        guest = _Guest(order["sandbox"], allowed, order["connections"], order["network_bytes"])
        task = asyncio.get_running_loop().create_task(self._host(guest, listener, lifeline))
        self._guests.add(task)
        task.add_done_callback(self._guests.discard)
        self._control.send(json.dumps({}).encode())

    async def _host(self, guest: _Guest, listener: socket.socket, lifeline: socket.socket) -> None:
        """Serve a sandbox until the host lets go of its lifeline; then nothing of it is left."""
        listener.setblocking(False)
        lifeline.setblocking(False)
        loop = asyncio.get_running_loop()

        def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = loop.create_task(self._talk(guest, reader, writer))
            guest.talks.add(task)
            task.add_done_callback(guest.talks.discard)

        server = await asyncio.start_server(talk, sock=listener, limit=MAX_ASKED_BYTES)
        try:
            with contextlib.suppress(ConnectionError):
                await loop.sock_recv(lifeline, 1)
        finally:
            server.close()
            lifeline.close()
            for task in guest.talks:
                task.cancel()

    async def _talk(self, guest: _Guest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        started = time.time()
        told: dict[str, Any] = {"at": round(started, 3), "sandbox": guest.name, "up": 0, "down": 0}
        guest.tries += 1
        try:
            if guest.tries <= MAX_TRIES:
                told["status"] = await self._serve(guest, reader, writer, told)
        except Exception as error:  # noqa: BLE001  # nobody reads what we would say
            told["words"] = f"{type(error).__name__}: {error}"
        finally:
            writer.close()
            if guest.tries <= MAX_TRIES:
                self._log({**told, "s": round(time.time() - started, 3)})

    async def _serve(
        self, guest: _Guest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, told: dict[str, Any]
    ) -> int:
        """One connection to its end. Returns what it was answered."""
        try:
            if len(guest.talks) > guest.most_connections:
                raise RefusedError(429, f"this sandbox has {guest.most_connections} connections already")
            head = await _read_head(reader)
            told["asked"] = head.partition(b"\r\n")[0][:300].decode(errors="replace")
            place = read_asked(head)
            if place not in guest.allowed:
                raise RefusedError(403, f"{place[0]}:{place[1]} is not on this sandbox's allow list")
            guest.count(0)
            far_reader, far_writer, told["to"] = await _connect(await find_addresses(place), place[1])
        except RefusedError as error:
            told["words"] = str(error)
            with contextlib.suppress(ConnectionError):
                writer.write(
                    f"HTTP/1.1 {error.status} {error}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
                )
                await writer.drain()
            return error.status
        try:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await self._relay(guest, told, (reader, writer), (far_reader, far_writer))
        finally:
            far_writer.close()
        return 200

    async def _relay(self, guest: _Guest, told: dict[str, Any], near: Any, far: Any) -> None:
        async def pass_on(way: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while piece := await asyncio.wait_for(reader.read(_PIECE_BYTES), IDLE_S):
                told[way] += len(piece)
                guest.count(len(piece))
                writer.write(piece)
                await writer.drain()
            writer.write_eof()

        ways: list[Awaitable[None]] = [pass_on("up", near[0], far[1]), pass_on("down", far[0], near[1])]
        tasks = [asyncio.ensure_future(way) for way in ways]
        try:
            await asyncio.gather(*tasks)
        except (OSError, TimeoutError) as error:
            told["words"] = f"cut: {str(error) or 'nothing came'}"
        except RefusedError as error:
            told["words"] = f"cut: {error}"
        finally:
            for task in tasks:
                task.cancel()


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_WITHIN_S)
    except (EOFError, ConnectionError, TimeoutError):
        raise RefusedError(408, "wanted a request, found none") from None
    except asyncio.LimitOverrunError:
        raise RefusedError(431, f"wanted a request of at most {MAX_ASKED_BYTES:,} bytes, found a longer one") from None


async def _connect(addresses: Sequence[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str]:
    """To the first that answers."""
    words = ""
    for address in addresses:
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection(address, port), CONNECT_WITHIN_S)
        except (OSError, TimeoutError) as error:
            words = str(error) or "it does not answer"
            continue
        return reader, writer, address
    raise RefusedError(502, f"no connection: {words}".replace("\n", " "))


class Log:
    """Lines in a directory: the newest in one file, those before in another, neither longer than is said."""

    def __init__(self, directory: int) -> None:
        self._directory = directory
        self._file = self._open()

    def _open(self) -> int:
        return os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600, dir_fd=self._directory)

    def write(self, line: dict[str, Any]) -> None:
        if os.fstat(self._file).st_size > MAX_LOG_BYTES:
            os.close(self._file)
            os.replace(LOG, f"{LOG}.1", src_dir_fd=self._directory, dst_dir_fd=self._directory)
            self._file = self._open()
        os.write(self._file, json.dumps(line).encode() + b"\n")


def give_up_rights() -> None:
    """What is left: sockets, the files that everybody may read, and those it holds."""
    filters = compile_filters()
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(PROXY_ID, PROXY_ID, PROXY_ID)
        os.setresuid(PROXY_ID, PROXY_ID, PROXY_ID)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MAX_LOG_BYTES, 2 * MAX_LOG_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    kernel.forbid_new_privileges()
    for program in filters:
        kernel.install_filter(program)
    kernel.drop_capabilities()
    kernel.set_open_to_own_user(is_open=False)


async def _resolve_once() -> None:
    """What is loaded on the way may lie where only our first user may read."""
    with contextlib.suppress(OSError):
        await asyncio.get_running_loop().getaddrinfo("localhost", 443, type=socket.SOCK_STREAM)


async def _serve(control: socket.socket, logs: int) -> None:
    await Proxy(control, Log(logs).write).serve()


def main() -> None:
    control, logs = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    asyncio.run(_resolve_once())
    give_up_rights()
    control.send(b"{}")
    asyncio.run(_serve(control, logs))
    os._exit(0)  # whoever resolves a name still is not waited for


if __name__ == "__main__":
    main()
