"""Asking byte by byte, where a client library would not do what one wants to see refused. Needs no Django."""

import json
import socket
from types import TracebackType
from typing import Any, NamedTuple, Self

ATTACKER, NEIGHBOUR = "127.0.0.2", "127.0.0.1"


class Heard(NamedTuple):
    """An answer, as far as it came before the server ended it; status 0: the connection ended without one."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class RawConnection:
    """Sends what it is told and reads one answer, from an address of its own."""

    def __init__(self, port: int, *, source: str = ATTACKER, timeout_s: float = 30.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s, source_address=(source, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.socket.close()

    def send(self, *pieces: bytes) -> bool:
        """False where the server has ended the connection."""
        try:
            for piece in pieces:
                self.socket.sendall(piece)
        except ConnectionError:
            return False
        return True

    def hear(self) -> Heard:
        """Wait for an answer, or the connection's end."""
        data = b""
        try:
            while b"\r\n\r\n" not in data and (more := self.socket.recv(65_536)):
                data += more
            head, _, body = data.partition(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
            length = int(headers.get("content-length", 0))
            while len(body) < length and (more := self.socket.recv(65_536)):
                body += more
        except ConnectionError:
            return Heard(0, {}, b"")
        return Heard(int(lines[0].split()[1]) if head else 0, headers, body)


def make_head(method: str, path: str, *headers: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode("latin-1")


def ask(port: int, method: str, path: str, *headers: str, body: bytes = b"", source: str = ATTACKER) -> Heard:
    """One whole request."""
    lines = [*headers, f"Content-Length: {len(body)}"] if body or method == "POST" else list(headers)
    with RawConnection(port, source=source) as connected:
        connected.send(make_head(method, path, *lines) + body)
        return connected.hear()
