"""The guard for httpx: one connection pool whose every connection was looked at."""

import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import httpcore
import httpx

from tentalis.limits import LIMITS
from tentalis.outbound.addresses import BlockedAddressError, Origin, check_url, refuse_unknown, require_allowed
from tentalis.outbound.answers import COMPRESSED, Measure, is_compressed
from tentalis.outbound.scopes import current_scope
from tentalis.outbound.trust import trust_authorities

MAX_READ_BYTES = LIMITS.answer_bytes
TOTAL_S = 30.0
CONNECT_S = 3.0

Resolve = Callable[[str, int], list[str]]


class AnswerTooLongError(httpx.TransportError):
    """The answer is larger, or takes longer, than was allowed."""


def resolve(host: str, port: int) -> list[str]:
    """IP addresses of a name, in the system's order. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def guarded_client(
    *,
    allow_private: bool = False,
    bound_to: Origin | None = None,
    max_bytes: int = MAX_READ_BYTES,
    total_s: float | None = TOTAL_S,
    timeout: httpx.Timeout | float | None = None,
    max_connections: int = 16,
    headers: Mapping[str, str] | None = None,
    base_url: str = "",
    resolve: Resolve = resolve,
    network: httpcore.NetworkBackend | None = None,
) -> httpx.Client:
    """A client that connects to public addresses only, follows nothing and reads no more than it was told to.

    A request raises httpx.TransportError (AnswerTooLongError among them), or BlockedAddressError where the address
    may not be used. May be used by many threads at once; close it.

    Args:
        allow_private: an admin allowed loopback and private networks.
        bound_to: requests to any other origin are refused before anything is sent.
        max_bytes: of an answer's body, headers not counted.
        total_s: of an answer's body, however slowly it drips; None: each read has its own time only.
        network: opens the connections, to addresses that were looked at; None: the system's sockets.
    """
    transport = GuardedTransport(
        allow_private=allow_private,
        bound_to=bound_to,
        max_bytes=max_bytes,
        total_s=total_s,
        max_connections=max_connections,
        resolve=resolve,
        network=network or httpcore.SyncBackend(),
    )
    return httpx.Client(
        transport=transport,
        base_url=base_url,
        trust_env=False,
        follow_redirects=False,
        timeout=timeout or httpx.Timeout(10.0, connect=CONNECT_S),
        headers={"User-Agent": "tentalis", **(headers or {}), "Accept-Encoding": "identity"},
    )


class GuardedTransport(httpx.HTTPTransport):
    """Looks at every request, connection and answer; see `guarded_client`."""

    def __init__(
        self,
        *,
        allow_private: bool,
        bound_to: Origin | None,
        max_bytes: int,
        total_s: float | None,
        max_connections: int,
        resolve: Resolve,
        network: httpcore.NetworkBackend,
    ) -> None:
        self._bound_to = bound_to
        self._max_bytes = max_bytes
        self._total_s = total_s
        # httpx offers no way to say where connections come from; its transport is a thin cover of this pool
        self._pool = httpcore.ConnectionPool(
            ssl_context=trust_authorities(),
            max_connections=max_connections,
            max_keepalive_connections=max_connections,
            network_backend=_GuardedBackend(network, allow_private=allow_private, resolve=resolve),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        try:
            origin = check_url(f"{url.scheme}://{url.netloc.decode('ascii')}")
        except ValueError as error:
            raise BlockedAddressError(f"the address {error}") from None
        if self._bound_to is not None and origin != self._bound_to:
            raise BlockedAddressError(f"this client speaks to {self._bound_to} only, and was asked for {origin}")
        response = super().handle_request(request)
        words = COMPRESSED if is_compressed(response.headers) else ""
        declared = response.headers.get("Content-Length", "")
        if request.method != "HEAD" and declared.isdecimal():  # before any of it is read
            words = words or Measure(self._max_bytes).find_excess(int(declared[:20]))
        if words:
            response.close()
            raise AnswerTooLongError(words, request=request)
        assert isinstance(response.stream, httpx.SyncByteStream)
        response.stream = _Bounded(response.stream, request, self._max_bytes, self._total_s)
        return response


class _GuardedBackend(httpcore.NetworkBackend):
    """Resolves once, looks at every address found, and connects to one of exactly those."""

    def __init__(self, network: httpcore.NetworkBackend, *, allow_private: bool, resolve: Resolve) -> None:
        self._network = network
        self._allow_private = allow_private
        self._resolve = resolve

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        if (scope := current_scope()) is not None:
            scope.require()
            timeout = scope.shorten(timeout)
        try:
            addresses = self._resolve(host, port)
        except OSError as error:
            if not (isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN):  # which a later try finds
                refuse_unknown(host, allow_private=self._allow_private)
            raise httpcore.ConnectError(f"the name {host} cannot be resolved: {error.strerror or error}") from error
        for address in addresses:
            require_allowed(address, host, allow_private=self._allow_private)
        failure: Exception = httpcore.ConnectError(f"the name {host} has no address")
        for address in addresses:
            try:
                return _ScopedStream(self._network.connect_tcp(address, port, timeout, local_address, socket_options))
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        raise BlockedAddressError(f"{path} is a socket of this machine")

    def sleep(self, seconds: float) -> None:
        self._network.sleep(seconds)


class _ScopedStream(httpcore.NetworkStream):
    """A connection whose reads and writes end with the `CancelScope` they are made in."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if (scope := current_scope()) is None:
            return self._stream.read(max_bytes, timeout)
        with scope.watching(self._socket):
            return self._stream.read(max_bytes, scope.shorten(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if (scope := current_scope()) is None:
            return self._stream.write(buffer, timeout)
        with scope.watching(self._socket):
            return self._stream.write(buffer, scope.shorten(timeout))

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        if (scope := current_scope()) is None:
            return _ScopedStream(self._stream.start_tls(ssl_context, server_hostname, timeout))
        with scope.watching(self._socket):
            return _ScopedStream(self._stream.start_tls(ssl_context, server_hostname, scope.shorten(timeout)))

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    @property
    def _socket(self) -> socket.socket:
        found = self._stream.get_extra_info("socket")
        assert isinstance(found, socket.socket)
        return found


class _Bounded(httpx.SyncByteStream):
    """A body that ends with an error where it is too long in bytes or in time."""

    def __init__(self, stream: httpx.SyncByteStream, request: httpx.Request, max_bytes: int, total_s: float | None):
        self._stream = stream
        self._request = request
        self._max_bytes = max_bytes
        self._total_s = total_s

    def __iter__(self) -> Iterator[bytes]:
        measure = Measure(self._max_bytes, self._total_s)
        for chunk in self._stream:
            if words := measure.find_excess(len(chunk)):
                raise AnswerTooLongError(words, request=self._request)
            yield chunk

    def close(self) -> None:
        self._stream.close()
