"""Is a server ready? Each probe opens one connection, says the smallest word of the protocol, and hangs up.

A probe answers False for "not yet" and never raises for a refused or broken connection.
"""

import asyncio
import struct
import time
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

from tentalis.sandbox.client import SandboxClient
from tentalis.sandbox.errors import SandboxError, SandboxUnavailableError

Probe = Callable[[], Coroutine[Any, Any, bool]]
PROBE_TIMEOUT_S = 5.0
SIGN_OF_LIFE_MAX_AGE_S = 10.0
SIGN_OF_LIFE_VARIABLE = "SIGN_OF_LIFE_FILE"
POSTGRES_PROTOCOL_VERSION = 3 << 16
LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - an address to ask, not to bind


def write_url(host: str, port: int) -> str:
    """Where a server that is bound to a host is asked."""
    asked = LOOPBACK.get(host, host)
    return f"http://{f'[{asked}]' if ':' in asked else asked}:{port}"


async def _ask(host: str, port: int, question: bytes, answer_size_bytes: int) -> bytes:
    """Send and read up to that many bytes; empty when nobody answered."""
    writer = None
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(LOOPBACK.get(host, host), port)
            writer.write(question)
            await writer.drain()
            return await reader.read(answer_size_bytes)
    except (OSError, TimeoutError):
        return b""
    finally:
        if writer is not None:
            writer.close()


def postgres_probe(host: str, port: int, user: str = "tentalis", database: str = "tentalis") -> Probe:
    """Ready when the server asks us for a password; while it recovers it sends an error instead."""
    pairs = b"user\0" + user.encode() + b"\0database\0" + database.encode() + b"\0\0"
    hello = struct.pack("!II", 8 + len(pairs), POSTGRES_PROTOCOL_VERSION) + pairs

    async def is_ready() -> bool:
        return await _ask(host, port, hello, 1) == b"R"

    return is_ready


def redis_probe(host: str, port: int, password: str = "", user: str = "") -> Probe:
    """Ready when it answers a ping; while it loads its file it answers LOADING."""
    login = f"AUTH {user + ' ' if user else ''}{password}\r\n" if password else ""
    wanted = b"+OK\r\n+PONG" if password else b"+PONG"

    async def is_ready() -> bool:
        return (await _ask(host, port, f"{login}PING\r\n".encode(), 64)).startswith(wanted)

    return is_ready


def http_probe(host: str, port: int, path: str, host_name: str = "localhost") -> Probe:
    """Ready when GET answers 200."""
    request = f"GET {path} HTTP/1.1\r\nHost: {host_name}\r\nConnection: close\r\n\r\n".encode()

    async def is_ready() -> bool:
        return (await _ask(host, port, request, 32))[8:13] == b" 200 "

    return is_ready


def sandbox_probe(directory: Path) -> Probe:
    """Ready when it says what it is, be it that it can confine nothing here."""

    def ask() -> bool:
        try:
            with closing(SandboxClient(directory, timeout_s=PROBE_TIMEOUT_S)) as client:
                client.describe()
        except SandboxUnavailableError:
            return True
        except (SandboxError, OSError):
            return False
        return True

    async def is_ready() -> bool:
        return await asyncio.to_thread(ask)

    return is_ready


def sign_of_life_probe(file: Path) -> Probe:
    """Ready when the process has touched its file (`tentalis.platform.sign_of_life`) in the last seconds."""

    async def is_ready() -> bool:
        try:
            age_s = time.time() - file.stat().st_mtime
        except OSError:
            return False
        return age_s < SIGN_OF_LIFE_MAX_AGE_S

    return is_ready
