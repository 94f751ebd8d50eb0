"""Whether a web process lives, answered by its event loop itself: no thread of the requests, no database, no Django."""

from typing import Any

PATH = "/healthz"
BODY = b'{"status": "alive"}'


class AnswersAlive:
    """An ASGI application that answers GET and HEAD of `/healthz` before everything else."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] != PATH or scope["method"] not in {"GET", "HEAD"}:
            await self.app(scope, receive, send)
            return
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())]
        headers += [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": BODY if scope["method"] == "GET" else b""})
