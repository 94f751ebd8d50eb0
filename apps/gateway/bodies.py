"""Reading a request's body: so many bytes, within so much time, and not more of all callers together than fit."""

import asyncio

from aiohttp import HttpVersion11, web

from apps.gateway.edge import Edge
from apps.gateway.errors import RefusalError, refuse_busy
from apps.gateway.tables import Caller
from tentalis.limits import LIMITS


class Body:
    """One request's body, and its caller's place among those who ask, until `let_go`.

    Args:
        most_bytes: of it that are read.
    Raises:
        RefusalError: 429: the caller's token has too many requests under way.
    """

    def __init__(self, edge: Edge, caller: Caller, *, most_bytes: int = LIMITS.gateway_body_bytes) -> None:
        self._edge = edge
        self._most_bytes = most_bytes
        self._token = caller.token
        self._size = 0
        if edge.begun[self._token] >= LIMITS.requests_per_token:
            raise refuse_busy(f"{LIMITS.requests_per_token} requests of this token are under way, which is its share")
        edge.begun[self._token] += 1

    async def read(self, request: web.BaseRequest) -> bytes:
        """All of it.

        Raises:
            RefusalError: 413: it is too large; 408: it does not come; 429: others' take all the room there is.
        """
        if (request.content_length or 0) > self._most_bytes:
            raise _refuse_size(self._most_bytes)
        if request.content.is_eof():  # it came with the head, as most do
            raw = request.content.read_nowait()
            self._hold(len(raw))
            return raw
        await _say_go_on(request)
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(LIMITS.body_s):
                while part := await request.content.readany():
                    self._hold(len(part))
                    parts.append(part)
        except TimeoutError:
            message = f"the body did not come within {LIMITS.body_s:g} s"
            raise RefusalError(message, status=408, code="request_timeout", is_recorded=False) from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def let_go(self) -> None:
        """Of its room and its place; once, when the request was answered."""
        self._edge.held_bytes -= self._size
        self._edge.begun[self._token] -= 1
        if not self._edge.begun[self._token]:
            del self._edge.begun[self._token]

    def _hold(self, size: int) -> None:
        self._size += size
        self._edge.held_bytes += size
        if self._size > self._most_bytes:
            raise _refuse_size(self._most_bytes)
        if self._edge.held_bytes > LIMITS.bodies_bytes:
            raise refuse_busy(f"{LIMITS.bodies_bytes:,} bytes of requests are under way, and no more are held")


async def _say_go_on(request: web.BaseRequest) -> None:
    """To a caller who waits to hear that its body is wanted, as curl and .NET do with a large one."""
    if request.version == HttpVersion11 and request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0


def _refuse_size(most_bytes: int) -> RefusalError:
    message = f"the body is too large: wanted at most {most_bytes:,} bytes"
    return RefusalError(message, status=413, code="too_large", is_recorded=False)
