"""How the host speaks with who asks it, and with the agent in a sandbox: a JSON object, then bytes, both with their
length."""

import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio  # not loaded in a sandbox

SOCKET: Final = "host.sock"
"""In a host's directory: where it is asked."""
STAGED: Final = "staged"
"""In a host's directory: where images are laid out before they are handed in."""
HOME: Final = "/work"
"""Of whoever works in a sandbox: where programs start."""
DEFAULT_TIMEOUT_S: Final = 60.0
"""Of a command whose asker names no other."""
MAIN_SHELL: Final = "main"
"""The shell of whoever names none."""
SCREEN_LINES: Final = 24
SCREEN_COLUMNS: Final = 80
MAX_KEYS_BYTES: Final = 1_024
"""Pressed at once: a terminal keeps four times as many for who does not read them."""
PIECE_BYTES: Final = 2**16
"""Of what is read at once."""
MAX_HEAD_BYTES: Final = 2**20
MAX_PAYLOAD_BYTES: Final = 2**24
_LENGTHS: Final = struct.Struct(">II")
Frame = tuple[dict[str, Any], bytes]


class FrameError(Exception):
    """The other side does not keep to this; nothing more can be read from it."""


def pack(head: Mapping[str, Any], payload: bytes = b"") -> bytes:
    text = json.dumps(head, separators=(",", ":")).encode()
    _check_lengths(len(text), len(payload))
    return _LENGTHS.pack(len(text), len(payload)) + text + payload


def take_frame(buffer: bytearray) -> Frame | None:
    """Take the first whole frame out of what has been received; None while there is none."""
    if len(buffer) < _LENGTHS.size:
        return None
    head, payload = _LENGTHS.unpack_from(buffer)
    _check_lengths(head, payload)
    end = _LENGTHS.size + head + payload
    if len(buffer) < end:
        return None
    text, rest = bytes(buffer[_LENGTHS.size : _LENGTHS.size + head]), bytes(buffer[_LENGTHS.size + head : end])
    del buffer[:end]
    return _read_head(text), rest


def receive_frames(connection: socket.socket) -> Iterator[Frame]:
    """Those that come, as they come, until the other side is gone."""
    received = bytearray()
    while part := connection.recv(PIECE_BYTES):
        received += part
        while frame := take_frame(received):
            yield frame


async def read_frames(reader: "asyncio.StreamReader") -> AsyncIterator[Frame]:
    """The same of an asyncio stream."""
    received = bytearray()
    with contextlib.suppress(ConnectionError):
        while part := await reader.read(PIECE_BYTES):
            received += part
            while frame := take_frame(received):
                yield frame


def _check_lengths(head: int, payload: int) -> None:
    if head > MAX_HEAD_BYTES or payload > MAX_PAYLOAD_BYTES:
        wanted = f"at most {MAX_HEAD_BYTES:,} bytes of JSON and {MAX_PAYLOAD_BYTES:,} of payload"
        raise FrameError(f"wanted {wanted}, found {head:,} and {payload:,}")


def _read_head(text: bytes) -> dict[str, Any]:
    try:
        head = json.loads(text)
    except (ValueError, RecursionError):
        raise FrameError("wanted a JSON object, found something else") from None
    if not isinstance(head, dict):
        raise FrameError(f"wanted a JSON object, found a {type(head).__name__}")
    return head
