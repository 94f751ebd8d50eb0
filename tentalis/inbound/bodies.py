"""Bodies with an end, in size and in time, before the application puts them anywhere."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tentalis.inbound.refusals import make_refusal

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Receive, Send], Awaitable[None]]
DISCONNECT = {"type": "http.disconnect"}


class BoundedBodies:
    """An ASGI application whose requests have bodies of so many bytes, which come within so many seconds.

    What goes beyond is answered 413 or 408 here, and the application, which keeps what it is given in a temporary file,
    is told that the caller has gone.
    """

    def __init__(self, application: Application, *, most_bytes: int, most_s: float) -> None:
        self._application = application
        self._most_bytes = most_bytes
        self._most_s = most_s

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        body = _Body(scope["path"], receive, send, self._most_bytes, self._most_s)
        if _read_length(scope["headers"]) > self._most_bytes:
            await body.refuse_size()
            return
        await self._application(scope, body.receive, body.send)


class _Body:
    """Of one request."""

    def __init__(self, path: str, receive: Receive, send: Send, most_bytes: int, most_s: float) -> None:
        self._path = path
        self._receive = receive
        self._send = send
        self._most_bytes = most_bytes
        self._most_s = most_s
        self._until = asyncio.get_running_loop().time() + most_s
        self._size = 0
        self._is_whole = False
        self._is_refused = False
        self._has_begun = False

    async def receive(self) -> Message:
        if self._is_whole:
            return await self._receive()
        if self._is_refused:
            return DISCONNECT
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            return await self._refuse(408, f"wanted a request's body within {self._most_s:g} s")
        self._size += len(message.get("body", b""))
        if self._size > self._most_bytes:
            return await self.refuse_size()
        self._is_whole = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """The application's answer, unless it was refused already."""
        if not self._is_refused:
            self._has_begun = True
            await self._send(message)

    async def refuse_size(self) -> Message:
        return await self._refuse(413, f"wanted a body of at most {self._most_bytes:,} bytes, found more")

    async def _refuse(self, status: int, detail: str) -> Message:
        self._is_refused = True
        if not self._has_begun:
            found = make_refusal(self._path, status, detail)
            await self._send({"type": "http.response.start", "status": found.status, "headers": found.headers})
            await self._send({"type": "http.response.body", "body": found.body})
        return DISCONNECT


def _read_length(headers: list[tuple[bytes, bytes]]) -> int:
    """Of a Content-Length header; 0 without one. Its digits were looked at by the server."""
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            return int(value) if len(value) < 20 else 2**63
    return 0
