"""The web's HTTP, with an end to everything that may come before a request is whole; for `uvicorn --http`.

uvicorn's own takes headers of any size, which httptools puts together piece by piece in quadratic time, and waits for
ever for the rest of one. Why not its other one, h11: docs/adr/0038-limits-stand-in-one-table.md.
"""

import math
from asyncio import BaseTransport, TimerHandle, Transport
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tentalis.env import read_variable
from tentalis.inbound.connections import Connections
from tentalis.inbound.refusals import make_refusal
from tentalis.limits import LIMITS

CONNECTIONS = Connections(LIMITS.connections_per_address, read_variable("TRUSTED_PROXIES"))
MOST_QUIET_BYTES = LIMITS.header_bytes + LIMITS.address_bytes
"""Bytes that are no body and end no head: a value, a name, a chunk's extension or a trailer that goes on and on."""


class _Beyond(Exception):
    """A limit is passed; it ends the parsing."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, config: Any, *args: Any, **named: Any) -> None:
        config.ws_max_size = LIMITS.socket_bytes
        super().__init__(config, *args, **named)
        self.timeout_keep_alive = math.ceil(LIMITS.idle_s)
        self._address: str | None = None
        self._is_counted = False
        self._is_refused = False
        self._refusal = 400, "this is no HTTP/1.1 request"
        self._head_timer: TimerHandle | None = None
        self._head_bytes = 0
        self._quiet_bytes = 0
        self._is_inside = False
        self._has_told = False

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(cast(Transport, transport))
        self._address = self.client[0] if self.client else None
        self._is_counted = CONNECTIONS.take(self._address)
        if not self._is_counted:
            self._refuse(429, f"{LIMITS.connections_per_address} connections from this address are open")
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._let_go()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        was_inside, self._has_told = self._is_inside, False
        super().data_received(data)
        if not (was_inside and self._is_inside) or self._has_told:
            self._quiet_bytes = 0
            return
        self._quiet_bytes += len(data)
        if self._quiet_bytes > MOST_QUIET_BYTES:
            self._refuse(431, f"wanted headers of at most {LIMITS.header_bytes:,} bytes, found more")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_inside = True
        self._head_bytes = 0
        if self._head_timer is None:
            self._await_head()

    def on_url(self, url: bytes) -> None:
        if len(self.url) + len(url) > LIMITS.address_bytes:
            self.url = self.url or url[:64]  # enough to tell which API is spoken
            self._refusal = 414, f"wanted a path and query of at most {LIMITS.address_bytes:,} bytes, found more"
            raise _Beyond
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > LIMITS.header_bytes:
            self._refusal = 431, f"wanted headers of at most {LIMITS.header_bytes:,} bytes, found more"
            raise _Beyond
        if len(self.headers) >= LIMITS.header_lines:
            self._refusal = 431, f"wanted at most {LIMITS.header_lines} headers, found more"
            raise _Beyond
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._has_told = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_inside = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(*self._refusal)

    def handle_websocket_upgrade(self) -> None:
        """The connection is another protocol's from here on; it is counted until that one's end."""
        self._stop_waiting()
        super().handle_websocket_upgrade()
        socket = cast(Any, self.transport.get_protocol())
        lose = socket.connection_lost

        def connection_lost(exc: Exception | None) -> None:
            self._let_go()
            lose(exc)

        socket.connection_lost = connection_lost
        if self.transport.is_closing():
            self._let_go()

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(LIMITS.header_s, self._end_waiting)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end_waiting(self) -> None:
        self._head_timer = None
        if self._is_inside:
            self._refuse(408, f"wanted a request's headers within {LIMITS.header_s:g} s")
        elif not self.transport.is_closing():
            self.transport.close()

    def _refuse(self, status: int, detail: str) -> None:
        """Answer where nothing is being answered yet, and end the connection."""
        self._is_refused = True
        self._stop_waiting()
        if self.transport.is_closing():
            return
        cycle: RequestResponseCycle | None = self.cycle
        is_answering = cycle is not None and not cycle.response_complete
        if not is_answering:
            path = getattr(self, "url", b"").decode("latin-1")
            self.transport.write(make_refusal(path, status, detail).to_bytes())
        self.transport.close()

    def _let_go(self) -> None:
        if self._is_counted:
            self._is_counted = False
            CONNECTIONS.give_back(self._address)
