"""One connection to the gateway, with an end to everything that may come before a request is whole."""

import asyncio
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from apps.gateway.dialects import DIALECTS
from tentalis.inbound.connections import Connections
from tentalis.inbound.refusals import CODES
from tentalis.limits import LIMITS

MOST_QUIET_BYTES = LIMITS.header_bytes + LIMITS.address_bytes
SERVER = {"Server": "tentalis"}
"""Else aiohttp tells its version and Python's."""
PARSER_LIMITS: dict[str, Any] = {
    "max_line_size": LIMITS.address_bytes,
    "max_field_size": LIMITS.header_bytes,
    "max_headers": LIMITS.header_lines,
    "keepalive_timeout": LIMITS.idle_s,
    "lingering_time": 1.0,
}


class BoundedServer(web.Server):
    """Makes `BoundedConnection`s.

    Args:
        connections: counts them by address.
    """

    def __init__(self, handler: Any, *, connections: Connections, **options: Any) -> None:
        super().__init__(handler, **PARSER_LIMITS, **options)
        self.by_address = connections

    def __call__(self) -> "BoundedConnection":
        return BoundedConnection(self, loop=self._loop, **self._kwargs)


class BoundedConnection(web.RequestHandler):
    """aiohttp's, which waits for ever for the rest of a request's head, however long that gets."""

    __slots__ = ("_address", "_by_address", "_head_timer", "_quiet_bytes", "_takes_place")

    def __init__(self, manager: BoundedServer, **options: Any) -> None:
        super().__init__(manager, **options)
        self._by_address = manager.by_address
        self._address: str | None = None
        self._takes_place = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._quiet_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self._address = str(peer[0]) if isinstance(peer, tuple) else None
        self._takes_place = self._by_address.take(self._address)
        if not self._takes_place:
            self._end(429, f"{LIMITS.connections_per_address} connections from this address are open")

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_waiting()
        if self._takes_place:
            self._takes_place = False
            self._by_address.give_back(self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._awaits_head():  # a request is being answered: its body has its own time
            if self._quiet_bytes:
                self._stop_waiting()
            return
        self._quiet_bytes += len(data)
        if self._quiet_bytes > MOST_QUIET_BYTES:
            self._end(431, f"wanted headers of at most {LIMITS.header_bytes:,} bytes, found more")
        elif self._head_timer is None:
            self._head_timer = self._loop.call_later(LIMITS.header_s, self._end_waiting)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What cannot be parsed, in the words of the APIs that are spoken here; without a traceback in the log."""
        if status != 400:
            return super().handle_error(request, status, exc, message)
        if isinstance(exc, LineTooLong):
            is_address = exc.args[1] == LIMITS.address_bytes
            found = 414 if is_address else 431
            words = f"wanted {'an address' if is_address else 'headers'} of at most {exc.args[1]:,} bytes, found more"
        elif exc is not None and "Too many headers" in str(exc):
            found, words = 431, f"wanted at most {LIMITS.header_lines} headers, found more"
        else:
            found, words = 400, "this is no HTTP/1.1 request"
        response = web.Response(
            body=describe_refusal(found, words), status=found, content_type="application/json", headers=SERVER
        )
        response.force_close()
        return response

    def _awaits_head(self) -> bool:
        if self._waiter is None:  # so it is before the first request, too, until the connection's task has begun
            return not self._request_count
        return not self._waiter.done()

    def _stop_waiting(self) -> None:
        self._quiet_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end_waiting(self) -> None:
        self._head_timer = None
        self._end(408, f"wanted a request's headers within {LIMITS.header_s:g} s")

    def _end(self, status: int, words: str) -> None:
        """Say why, where nothing is being answered, and close."""
        self._stop_waiting()
        if self.transport is None or self.transport.is_closing():
            return
        body = describe_refusal(status, words)
        reason = web.Response(status=status).reason
        lines = [
            f"HTTP/1.1 {status} {reason}",
            "Server: tentalis",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *(["Retry-After: 5"] if status == 429 else []),
            "Connection: close",
        ]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        self.force_close()


def describe_refusal(status: int, text: str) -> bytes:
    """An error before it is known which API is spoken: in the form that OpenAI's clients read."""
    body: bytes = DIALECTS["chat"].error(status=status, message=text, code=CODES[status], param="")
    return body
