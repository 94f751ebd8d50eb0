"""Reading a request's body: so many bytes, within so much time, and not more of all callers together than fit."""

import asyncio
import zlib
from collections.abc import AsyncIterator

from multidict import istr

from apps.gateway.edge import Edge
from apps.gateway.errors import RefusalError, refuse_busy
from apps.gateway.tables import Caller
from tentalis.inbound.http1 import BrokenBodyError, Request
from tentalis.inbound.refusals import CODES
from tentalis.limits import LIMITS

UNPACKED_AT_ONCE = 2**18
_ENCODING = istr("Content-Encoding")
_WINDOW = 15  # of both, as large as it gets
_WINDOWS = {"gzip": 16 + _WINDOW, "x-gzip": 16 + _WINDOW, "deflate": _WINDOW}


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

    def take(self, request: Request) -> bytes | None:
        """All of it, where it came with the head and is not packed, as most do; None where it has to be read. Raises as
        `read`."""
        if request.headers.get(_ENCODING) or request.size > self._most_bytes or (raw := request.take()) is None:
            return None
        self._hold(len(raw))
        return raw

    async def read(self, request: Request) -> bytes:
        """All of it, unpacked.

        Raises:
            RefusalError: 413: it is too large; 408: it does not come; 429: others' take all the room there is; 400,
                415: it cannot be read.
        """
        if request.size > self._most_bytes:
            raise _refuse_size(self._most_bytes)
        packing = request.headers.get(_ENCODING, "").lower()
        if packing in ("", "identity"):
            if (raw := request.take()) is not None:
                self._hold(len(raw))
                return raw
            pieces = _read(request)
        elif packing in _WINDOWS:
            pieces = _unpack(request, _WINDOWS[packing])
        else:
            message = f"Content-Encoding: wanted gzip, deflate or none, found {packing[:40]!r}"
            raise RefusalError(message, status=415, code="unsupported_encoding", is_recorded=False)
        request.say_go_on()
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(LIMITS.body_s):
                async for part in pieces:
                    self._hold(len(part))
                    parts.append(part)
        except TimeoutError:
            message = f"the body did not come within {LIMITS.body_s:g} s"
            raise RefusalError(message, status=408, code="request_timeout", is_recorded=False) from None
        except (BrokenBodyError, zlib.error) as error:
            message = f"the body cannot be read: {error}"
            raise RefusalError(message, status=400, code=CODES[400], is_recorded=False) from None
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


async def _read(request: Request) -> AsyncIterator[bytes]:
    while part := await request.read():
        yield part


async def _unpack(request: Request, window: int) -> AsyncIterator[bytes]:
    """Pieces of a compressed body that are small however much lies in it. Raises as `Request.read`, or zlib.error."""
    unpacker = zlib.decompressobj(window)
    while packed := await request.read():
        while packed:
            yield unpacker.decompress(packed, UNPACKED_AT_ONCE)
            packed = unpacker.unconsumed_tail
            await asyncio.sleep(0)
    if not unpacker.eof:
        raise BrokenBodyError("it ends before what is compressed in it does")


def _refuse_size(most_bytes: int) -> RefusalError:
    message = f"the body is too large: wanted at most {most_bytes:,} bytes"
    return RefusalError(message, status=413, code="too_large", is_recorded=False)
