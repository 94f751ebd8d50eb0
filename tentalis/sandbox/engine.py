"""Asking the daemon of Docker or Podman, by the REST API that both serve on a Unix socket.

Source: Docker Engine API 1.41; what Podman says of it in its compatible part (`podman system service`).
"""

import asyncio
import contextlib
import http.client
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import quote, urlencode

from tentalis.sandbox.errors import SandboxError, SandboxUnavailableError

ANSWER_WITHIN_S: Final = 120.0
MAX_WORDS_CHARS: Final = 500
_GOOD: Final = range(200, 300)
_UPGRADED: Final = (101, 200)
_STANDARD_OUTPUT: Final = 1


class EngineError(SandboxError):
    """The daemon refused: `status` and its words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=ANSWER_WITHIN_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Engine:
    """The daemon at a socket.

    Args:
        name: docker or podman, for what is said of it.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self.name = name

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | IO[bytes] | None = None,
    ) -> Any:
        """One question; the answer's JSON, a list of them where several come, None where nothing does.

        Args:
            body: JSON, or an archive.
        Raises:
            SandboxUnavailableError: no daemon answers.
            EngineError: it refuses.
        """
        is_json = isinstance(body, Mapping)
        headers = {"Host": "localhost", "Content-Type": "application/json" if is_json else "application/x-tar"}
        content = json.dumps(body).encode() if isinstance(body, Mapping) else body
        connection = _Connection(self._path)
        try:
            connection.request(method, _target(path, query), content, headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._absent(error) from None
        finally:
            connection.close()
        if answer.status not in _GOOD:
            raise EngineError(answer.status, f"{self.name} refuses: {_words(text)}")
        return _read(text)

    async def ask_later(self, method: str, path: str, **rest: Any) -> Any:
        """The same, without holding up who else is served."""
        return await asyncio.to_thread(self.ask, method, path, **rest)

    async def attach(self, container: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """What a container's first process writes to its standard output, and where its standard input is written."""
        query = {"stream": "1", "stdin": "1", "stdout": "1"}
        try:
            raw, writer = await asyncio.open_unix_connection(str(self._path))
            request = f"POST {_target(f'/containers/{container}/attach', query)} HTTP/1.1\r\nHost: localhost\r\n"
            writer.write(f"{request}Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            head = await asyncio.wait_for(raw.readuntil(b"\r\n\r\n"), ANSWER_WITHIN_S)
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            raise self._absent(error) from None
        status = head.split(b" ", 2)[1:2]
        if status not in [[b"%d" % one] for one in _UPGRADED]:
            writer.close()
            raise EngineError(0, f"{self.name} refuses: wanted a stream, found {head[:MAX_WORDS_CHARS]!r}")
        clean = asyncio.StreamReader()
        self._sorting = asyncio.create_task(_sort(raw, clean))
        return clean, writer

    def _absent(self, error: Exception) -> SandboxUnavailableError:
        words = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return SandboxUnavailableError(f"wanted {self.name} at {self._path}, found none that answers: {words}")


async def _sort(raw: asyncio.StreamReader, clean: asyncio.StreamReader) -> None:
    """Without a terminal a daemon sends both outputs in one stream, each piece behind its kind and length."""
    try:
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                head = await raw.readexactly(8)
                piece = await raw.readexactly(int.from_bytes(head[4:], "big"))
                if head[0] == _STANDARD_OUTPUT:
                    clean.feed_data(piece)
    finally:
        clean.feed_eof()


def _target(path: str, query: Mapping[str, str] | None) -> str:
    return quote(path, safe="/:") + (f"?{urlencode(query)}" if query else "")


def _read(text: bytes) -> Any:
    """JSON; of several values one behind the other, as progress is told, a list."""
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except ValueError:
        with contextlib.suppress(ValueError):
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        return text.decode(errors="replace")


def _words(text: bytes) -> str:
    told = _read(text)
    words = told.get("message") if isinstance(told, dict) else told
    return str(words)[:MAX_WORDS_CHARS].replace("\n", " ").strip()
