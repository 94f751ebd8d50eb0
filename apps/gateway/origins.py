"""What every answer says beside its own: the request's id, and to pages of which origins a browser may hand it."""

from collections.abc import Collection, Mapping

from multidict import istr

from apps.gateway.answers import SERVER
from tentalis.inbound.http1 import Request, Response

REQUEST_ID = istr("X-Request-Id")
ANTHROPICS_ID = "request-id"
MOST_ID_CHARS = 200
_ORIGIN = istr("Origin")
_ANYWHERE = "*"
_SHOWN = (
    "X-Request-Id, request-id, X-Tentalis-Exchange, X-Tentalis-Adapter, X-Tentalis-Fallback, "
    "X-Tentalis-Chosen-By, Retry-After"
)
_KEPT_S = 600


def make_base(request: Request, id: str, origins: Collection[str]) -> dict[str, str]:
    """Headers of an answer.

    Args:
        request: the id that it names is kept. id: where it names none that can be repeated.
        origins: that may read it, `*` for all; none by default.
    """
    base = {**SERVER, REQUEST_ID: request.recall(_read_id) or id}
    if origins:
        base |= _allow(request.headers, origins)
    return base


def _read_id(headers: Mapping[str, str]) -> str:
    given = headers.get(REQUEST_ID, "")
    return given if len(given) <= MOST_ID_CHARS and given.isascii() and given.isprintable() else ""


def answer_preflight(request: Request, origins: Collection[str]) -> Response | None:
    """What a browser asks before it lets a page ask; None where that is not asked, or by a page of elsewhere."""
    allowed = _allow(request.headers, origins)
    if "Access-Control-Allow-Origin" not in allowed or "Access-Control-Request-Method" not in request.headers:
        return None
    allowed |= {
        "Access-Control-Allow-Methods": "GET, POST, DELETE",
        "Access-Control-Allow-Headers": request.headers.get("Access-Control-Request-Headers", ""),
        "Access-Control-Max-Age": str(_KEPT_S),
    }
    return Response(headers=allowed, status=204)


def _allow(headers: Mapping[str, str], origins: Collection[str]) -> dict[str, str]:
    """No cookies are read here, so none are allowed: a page must hold a token."""
    origin = headers.get(_ORIGIN)
    if origin is None or not (_ANYWHERE in origins or origin in origins):
        return {"Vary": "Origin"} if _ANYWHERE not in origins else {}
    allowed = _ANYWHERE if _ANYWHERE in origins else origin
    return {"Access-Control-Allow-Origin": allowed, "Access-Control-Expose-Headers": _SHOWN, "Vary": "Origin"}
