"""Who asks for a socket: a program by the token it brings, else a browser by its cookie."""

import json
from typing import Any

from channels.db import database_sync_to_async

from apps.accounts.tokens import find_token
from apps.base.errors import NotSignedInError
from apps.base.trouble import MEDIA_TYPE, describe_problem

SUBPROTOCOL = "bearer"
"""`Sec-WebSocket-Protocol: bearer, tnt_…`: for clients that can set no `Authorization`. The token's letters need no
encoding there, and unlike an address the header is in no access log."""


class TokensElseBrowsers:
    """Asks `programs` as the token's user, with `scope["token"]`, or `browsers` where no token was brought.

    A cookie beside a token counts for nothing, and a token that does not hold is 401. No browser sends a token by
    itself, so it does not matter from which page one comes.
    """

    def __init__(self, programs: Any, *, browsers: Any) -> None:
        self._programs = programs
        self._browsers = browsers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        text = _read_token(scope)
        if text is None:
            return await self._browsers(scope, receive, send)
        try:
            token = await database_sync_to_async(find_token)(text)
        except NotSignedInError as error:
            return await _refuse(scope, send, error)
        return await self._programs({**scope, "user": token.user, "token": token}, receive, send)


def choose_subprotocol(scope: Any) -> str | None:
    """What is answered to the subprotocols that were offered: the one that brings tokens, or none."""
    return SUBPROTOCOL if SUBPROTOCOL in scope.get("subprotocols", ()) else None


def _read_token(scope: Any) -> str | None:
    """What was brought as a token, whatever it is; None where none was. The header comes before the subprotocol."""
    for name, value in scope.get("headers", ()):
        scheme, _, text = value.decode("latin-1").partition(" ")
        if name.lower() == b"authorization" and scheme.lower() == "bearer":
            return str(text).strip()
    offered = list(scope.get("subprotocols", ()))
    if SUBPROTOCOL not in offered:
        return None
    return next((str(one) for one in offered if one != SUBPROTOCOL), "")


async def _refuse(scope: Any, send: Any, error: NotSignedInError) -> None:
    if "websocket.http.response" not in scope.get("extensions", ()):
        await send({"type": "websocket.close"})
        return
    problem = describe_problem(None, status=error.status, code=error.code, detail=str(error))
    body = json.dumps(problem).encode()
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "websocket.http.response.start", "status": error.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})
