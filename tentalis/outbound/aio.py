"""The guard for aiohttp: a connector whose every socket was looked at."""

import socket
from typing import Any

from aiohttp import DefaultResolver, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult

from tentalis.outbound.addresses import refuse_unknown, require_allowed


def make_connector(
    *, allow_private: bool = False, resolver: AbstractResolver | None = None, **options: Any
) -> TCPConnector:
    """A connector that opens no socket to an address that may not be used; make it inside a running loop.

    Names are looked at when they are resolved; addresses, those in URLs too (which aiohttp does not resolve), when
    their socket is made. A refusal comes as aiohttp.ClientConnectorError with a BlockedAddressError inside. Sessions
    on it take `allow_redirects=False` with each request, and keep `trust_env=False`, which is aiohttp's default.

    Args:
        allow_private: an admin allowed loopback and private networks: one connector for those providers, one for all
            others.
        options: of aiohttp.TCPConnector: limit, keepalive_timeout…
    """
    return TCPConnector(
        resolver=GuardedResolver(resolver, allow_private=allow_private),
        socket_factory=_SocketFactory(allow_private=allow_private),
        **options,
    )


class GuardedResolver(AbstractResolver):
    """Resolves as another does, and refuses a name of which any address may not be used."""

    def __init__(self, inner: AbstractResolver | None = None, *, allow_private: bool = False) -> None:
        self._inner = inner or DefaultResolver()
        self._allow_private = allow_private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        try:
            found = await self._inner.resolve(host, port, family)
        except OSError:
            refuse_unknown(host, allow_private=self._allow_private)
            raise
        for entry in found:
            require_allowed(entry["host"], host, allow_private=self._allow_private)
        return found

    async def close(self) -> None:
        await self._inner.close()


class _SocketFactory:
    """Makes the socket of a connection, where its address may be used."""

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private

    def __call__(self, info: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, target = info
        require_allowed(str(target[0]), str(target[0]), allow_private=self._allow_private)
        return socket.socket(family=family, type=kind, proto=protocol)
