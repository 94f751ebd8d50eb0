"""`tentalis mcp --http`: the server as a process of its own."""

import socket
from collections.abc import Callable, Sequence

import uvicorn

from tentalis.mcp.server import PATH, make_http_app

LOOPBACK = ("127.0.0.1:*", "localhost:*", "[::1]:*")


def serve_http(url: str, *, host: str, port: int, say: Callable[[str], None], also: Sequence[str] = ()) -> None:
    """Serve until a signal.

    Args:
        url: of the platform.
        port: 0 for any free one.
        say: told the address once it is bound.
        also: Host headers that are answered besides loopback's.
    Raises:
        OSError: the address cannot be bound.
    """
    app = make_http_app(url, allowed_hosts=[*LOOPBACK, *also])
    config = uvicorn.Config(app, log_level="warning", proxy_headers=False, server_header=False)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as bound:
        name = f"[{host}]" if ":" in host else host
        say(f"http://{name}:{bound.getsockname()[1]}{PATH}")
        uvicorn.Server(config).run(sockets=[bound])
