"""Whose pages may open a socket: those of the very address they were loaded from."""

from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import split_domain_port, validate_host

PORTS = {"http": 80, "https": 443}
SCHEMES = {"ws": "http", "wss": "https", "http": "http", "https": "https"}


class SameOrigin:
    """Lets a socket through whose Origin is the scheme, host and port that it is asked at, or a trusted origin.

    Browsers send cookies with sockets to any port, so the host alone does not say whose page it is.
    """

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        if is_same_origin(scope):
            return await self._application(scope, receive, send)
        denier: Any = WebsocketDenier()
        return await denier(scope, receive, send)


def is_same_origin(scope: Any) -> bool:
    headers = {name.lower(): value.decode("latin-1") for name, value in scope.get("headers", ())}
    origin, host = headers.get(b"origin", ""), headers.get(b"host", "")
    scheme = SCHEMES.get(scope.get("scheme", "ws"), "http")
    if header := settings.SECURE_PROXY_SSL_HEADER:
        name, secure = header
        scheme = (
            "https" if headers.get(name.removeprefix("HTTP_").replace("_", "-").lower().encode()) == secure else scheme
        )
    wanted, found = _read(f"{scheme}://{host}"), _read(origin)
    if found is None or wanted is None:
        return False
    name = split_domain_port(host)[0]
    allowed = settings.ALLOWED_HOSTS or ([".localhost", "127.0.0.1", "[::1]"] if settings.DEBUG else [])
    trusted = {_read(one) for one in settings.CSRF_TRUSTED_ORIGINS}
    return (found == wanted and validate_host(name, allowed)) or found in trusted


def _read(text: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None for what is no origin."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in PORTS or not parts.hostname or parts.username or parts.path or parts.query or parts.fragment:
        return None
    return parts.scheme, parts.hostname, PORTS[parts.scheme] if port is None else port
