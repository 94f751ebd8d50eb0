"""The HTTP side of one gateway process: which path is what, and how it starts and stops."""

import asyncio
import logging
import math
import re
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from apps.accounts.rights import Right
from apps.base.tasks import cancel_and_wait
from apps.gateway.access import find_caller, require_asking, require_metrics_reader, require_reading
from apps.gateway.answers import SERVER, answer_json, describe_refusal
from apps.gateway.asking import read_object
from apps.gateway.bodies import Body
from apps.gateway.counting import count_tokens
from apps.gateway.dialects import DIALECTS, BadRequestError
from apps.gateway.edge import Edge
from apps.gateway.errors import RefusalError, refuse_model
from apps.gateway.exchange import EXCHANGE_HEADER, CallerRequest
from apps.gateway.metrics import CONTENT_TYPE
from apps.gateway.origins import answer_preflight, make_base
from apps.gateway.passing import PASSED, pass_on
from apps.gateway.sessions import find_place, read_session_headers
from apps.gateway.tables import Caller
from apps.gateway.telling import take_spans
from apps.gateway.traces import delete_response, list_input, read_response
from tentalis.inbound.connections import Connections
from tentalis.inbound.http1 import Request, Response, Server, Stream
from tentalis.limits import LIMITS

logger = logging.getLogger(__name__)

DRAIN_S = 10.0
INPUT_ITEMS, MOST_INPUT_ITEMS = 20, 100
"""Of a page, as OpenAI has them."""
DELETED = (
    "It is given out no more, and nothing is trained on it from now on. The project's record of it stays until the "
    "project deletes it; what was already trained on it, or waits in a batch, stays learnt until an owner forgets it."
)
CLOSE_S = 1.0
DIALECT_PATHS = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
}
_APIS = DIALECT_PATHS | {path.removeprefix("/v1"): api for path, api in DIALECT_PATHS.items()}
"""Some clients leave `/v1` out, of these and of `_SHORT`."""
_SHORT = frozenset(path.removeprefix("/v1") for path in ("/v1/models", "/v1/messages/count_tokens", *PASSED))
_SESSION = re.compile(r"/sessions/(?P<session>[^/].*?)(?P<rest>/v1(?:/.*)?|/traces|/done)")

FindTraces = Callable[[Caller, str, int, int], Awaitable["dict[str, Any] | None"]]
"""(caller, session key, after, limit) -> a page of its exchanges as JSON; None where they see no such session."""
CloseSession = Callable[[Caller, str], Awaitable[bool]]
"""(caller, session key) -> whether the caller has such a session, which is closed now."""


class GatewayServer:
    """Serves one `Edge`.

    Args:
        close_session: None: nobody stores sessions here, so there are none to close.
        sockets: bound, to listen at.
        expose: what /metrics says; the process's own figures by default.
        trusted_proxies: addresses and networks that ask for others.
        metrics_token: whoever has it may read /metrics; "": who asks from this machine.
    """

    def __init__(
        self,
        edge: Edge,
        find_traces: FindTraces,
        close_session: CloseSession | None = None,
        *,
        sockets: Sequence[socket.socket],
        expose: Callable[[], bytes] | None = None,
        trusted_proxies: Sequence[str] = (),
        metrics_token: str = "",
    ) -> None:
        self.edge = edge
        self._find_traces = find_traces
        self._close_session = close_session
        self._sockets = sockets
        self._expose = expose or edge.metrics.expose
        self._metrics_token = metrics_token
        self._ticker: asyncio.Task[None] | None = None
        by_address = Connections(LIMITS.connections_per_address, trusted_proxies)
        self._server = Server(self.handle, describe=describe_refusal, connections=by_address)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Listen."""
        await self._server.start(self._sockets)
        self._ticker = asyncio.create_task(self.edge.tick_for_ever())

    async def stop(self, *, drain_s: float = DRAIN_S) -> None:
        """Take no new connection, let the requests under way end, cut those that take longer."""
        self.edge.is_draining = True
        self._server.stop_listening()
        until = time.monotonic() + drain_s
        while self.edge.begun and time.monotonic() < until:
            await asyncio.sleep(0.02)
        await cancel_and_wait(self._ticker)
        self.edge.refusals.flush(math.inf)
        await self._server.close(patience_s=CLOSE_S)

    async def handle(self, request: Request) -> Response | Stream:
        path, in_path = request.path, ""
        if path.startswith("/sessions/") and (match := _SESSION.fullmatch(path)):
            in_path, path = match["session"], match["rest"]
        if request.method == "POST" and (api := _APIS.get(path)) is not None:
            return await CallerRequest(self.edge, request, api, in_path).answer()
        if path in _SHORT or path.startswith(("/models/", "/responses/")):
            path = f"/v1{path}"
        rest = await self._answer_rest(request, path, in_path)
        id = rest.headers.get(EXCHANGE_HEADER) or next(self.edge.ids)
        rest.headers.update(make_base(request, id, self.edge.origins))
        return rest

    async def _answer_rest(self, request: Request, path: str, in_path: str) -> Response:
        if request.method == "OPTIONS" and (answer := answer_preflight(request, self.edge.origins)) is not None:
            return answer
        try:
            return await self._look(request, path, in_path)
        except RefusalError as error:
            return _refuse(error, path)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            logger.exception("%s %s failed", request.method, path)
            return _refuse(RefusalError("internal error", status=500, code="internal"), path)

    async def _look(self, request: Request, path: str, in_path: str) -> Response:
        """Everything that asks no model: what a route takes is asked here, before anything behind it runs."""
        if "\0" in path or "\0" in in_path:
            raise RefusalError("the path holds a NUL character, which nothing here has", status=400, code="bad_request")
        verb = "GET" if request.method == "HEAD" else request.method
        shown, named = _find_route(path, in_path)
        route = f"{verb} {shown}"
        if (answer_anybody := OPEN.get(route)) is not None:
            return answer_anybody(self, request)
        if (closed := CLOSED.get(route)) is not None:
            caller = await find_caller(request, self.edge.config)
            REQUIRE[closed.takes](caller)
            return await closed.answer(self, request, caller, named)
        if (instead := NOT_SERVED.get(path)) is not None:
            raise RefusalError(f"{path}: not found here; {instead}", status=404, code="not_found")
        verbs = sorted(known.split(" ")[0] for known in list_routes() if known.split(" ")[1] == shown)
        if verbs:
            message = f"{path[:200]} takes {' or '.join(verbs)}"
            raise RefusalError(message, status=405, code="method_not_allowed")
        raise RefusalError(f"{request.method} {path[:200]}: not found here", status=404, code="not_found")

    async def _count_tokens(self, request: Request, caller: Caller, in_path: str) -> Response:
        arriving = Body(self.edge, caller)
        is_admitted = False
        try:
            raw = await arriving.read(request)
            self.edge.admit()
            is_admitted = True
            body = read_object(raw)
            place = find_place(body, request.recall(read_session_headers), caller, in_path=in_path)
            return _json({"input_tokens": await count_tokens(self.edge, body, caller, place)})
        except BadRequestError as error:
            raise RefusalError(str(error), status=error.status, code=error.code, param=error.param) from None
        finally:
            self.edge.in_flight -= is_admitted
            arriving.let_go()

    async def _list_models(self, request: Request, caller: Caller, wanted: str) -> Response:
        """In the shape of OpenAI and of Anthropic at once: neither's clients mind the other's fields."""
        known = self.edge.config.tables.list_models(caller.project)
        rows = [_describe_model(name, context) for name, context in known.items()]
        if wanted:
            found = [row for row in rows if row["id"] == wanted]
            if not found:
                raise refuse_model(wanted)
            return _json(found[0])
        ends = {"first_id": rows[0]["id"], "last_id": rows[-1]["id"]} if rows else {"first_id": None, "last_id": None}
        return _json({"object": "list", "data": rows, "has_more": False} | ends)

    async def _list_traces(self, request: Request, caller: Caller, session: str) -> Response:
        after = _read_count(request.query.get("after"), "after", 0, 2**62)
        limit = _read_count(request.query.get("limit"), "limit", 50, LIMITS.list_rows)
        page = await self._find_traces(caller, session, after, max(1, limit))
        if page is None:
            raise RefusalError(f"no session {session[:200]!r}", status=404, code="not_found")
        return _json(page)

    async def _show_response(self, request: Request, caller: Caller, wanted: str) -> Response:
        found = await self.edge.config.ask(lambda: read_response(caller, wanted))
        if found is None:
            raise refuse_response(wanted)
        return _json(found)

    async def _take_spans(self, request: Request, caller: Caller, session: str) -> Response:
        return await take_spans(self.edge, request, caller)

    async def _list_input(self, request: Request, caller: Caller, wanted: str) -> Response:
        limit = _read_count(request.query.get("limit"), "limit", INPUT_ITEMS, MOST_INPUT_ITEMS)
        items = await self.edge.config.ask(lambda: list_input(caller, wanted))
        if items is None:
            raise refuse_response(wanted)
        if request.query.get("order") != "asc":
            items = items[::-1]
        if after := request.query.get("after"):
            places = [place for place, item in enumerate(items) if item["id"] == after]
            if not places:
                raise RefusalError(f"no item {after[:100]!r}", status=400, code="invalid_value", param="after")
            items = items[places[0] + 1 :]
        page = items[: max(1, limit)]
        ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
        return _json({"object": "list", "data": page, "has_more": len(items) > len(page)} | ends)

    async def _delete_response(self, request: Request, caller: Caller, wanted: str) -> Response:
        if not await self.edge.config.ask(lambda: delete_response(caller, wanted)):
            raise refuse_response(wanted)
        return _json({"id": wanted, "object": "response", "deleted": True, "note": DELETED})

    async def _close(self, request: Request, caller: Caller, session: str) -> Response:
        if self._close_session is None or not await self._close_session(caller, session):
            raise RefusalError(f"no session {session[:200]!r}", status=404, code="not_found")
        return Response(status=204)

    def _show_metrics(self, request: Request) -> Response:
        require_metrics_reader(request, self._metrics_token)
        return Response(self._expose(), {"Content-Type": CONTENT_TYPE})

    def _report_health(self, request: Request) -> Response:
        edge, is_readiness = self.edge, request.path == "/readyz"
        reasons = [
            words
            for words, is_so in (
                ("it is stopping", edge.is_draining),
                ("the database is away", is_readiness and not edge.config.is_fresh),
                ("the spool is full", is_readiness and edge.spool.is_full),
            )
            if is_so
        ]
        reasons += edge.find_troubles() if is_readiness else []
        remarks = edge.config.servers_away if is_readiness and not reasons else []
        body = {
            "status": "unavailable" if reasons else "degraded" if remarks else "ok",
            "reasons": reasons or remarks,
            "in_flight": edge.in_flight,
            "loop_lag_ms": round(1000 * edge.lag_s, 1),
        }
        return _json(body, status=503 if reasons else 200)


Answer = Callable[[GatewayServer, Request, Caller, str], Awaitable[Response]]


def _make_passer(path: str) -> Answer:
    async def answer(server: GatewayServer, request: Request, caller: Caller, session: str) -> Response:
        return await pass_on(server.edge, request, caller, path, session)

    return answer


class Closed(NamedTuple):
    """What is behind a path for some alone.

    Args:
        takes: the right of the caller. answer: is given who they proved to be, and the session or model of the path.
    """

    takes: Right
    answer: Answer


REQUIRE: Mapping[Right, Callable[[Caller], None]] = {
    Right.GATEWAY_USE: require_asking,
    Right.SESSIONS_READ: require_reading,
}
OPEN: Mapping[str, Callable[[GatewayServer, Request], Response]] = {
    "GET /health": GatewayServer._report_health,
    "GET /healthz": GatewayServer._report_health,
    "GET /readyz": GatewayServer._report_health,
    "GET /metrics": GatewayServer._show_metrics,
}
CLOSED: Mapping[str, Closed] = {
    "GET /v1/models": Closed(Right.GATEWAY_USE, GatewayServer._list_models),
    "GET /v1/models/{model}": Closed(Right.GATEWAY_USE, GatewayServer._list_models),
    "GET /v1/responses/{response}": Closed(Right.GATEWAY_USE, GatewayServer._show_response),
    "GET /v1/responses/{response}/input_items": Closed(Right.GATEWAY_USE, GatewayServer._list_input),
    "DELETE /v1/responses/{response}": Closed(Right.GATEWAY_USE, GatewayServer._delete_response),
    "POST /v1/messages/count_tokens": Closed(Right.GATEWAY_USE, GatewayServer._count_tokens),
    **{f"POST {path}": Closed(Right.GATEWAY_USE, _make_passer(path)) for path in PASSED},
    "POST /v1/traces": Closed(Right.GATEWAY_USE, GatewayServer._take_spans),
    "GET /sessions/{session}/traces": Closed(Right.SESSIONS_READ, GatewayServer._list_traces),
    "POST /sessions/{session}/done": Closed(Right.GATEWAY_USE, GatewayServer._close),
}
"""Everything that is served but for the dialects. All below /v1 is served below /sessions/{session}/v1 too."""
NOT_SERVED: Mapping[str, str] = {
    "/v1/logs": "of OpenTelemetry only spans are taken, at /v1/traces: set OTEL_LOGS_EXPORTER=none",
    "/v1/metrics": "of OpenTelemetry only spans are taken, at /v1/traces: set OTEL_METRICS_EXPORTER=none",
    "/v1/responses/compact": "send the whole conversation",
    "/v1/responses/input_tokens": "tokens are counted at /v1/messages/count_tokens",
}
"""Paths that clients ask for and that nothing answers -> what they can do instead."""


def list_short_paths() -> list[str]:
    """Paths that are served without `/v1` too, below which more may be."""
    return sorted({path for path in _APIS if not path.startswith("/v1/")} | _SHORT)


def list_routes() -> list[str]:
    """`VERB path` of everything that is served."""
    return sorted([*OPEN, *CLOSED, *(f"POST {path}" for path in DIALECT_PATHS)])


def _find_route(path: str, in_path: str) -> tuple[str, str]:
    """(path with placeholders, the model, answer or session that it names)."""
    if path.startswith("/v1/models/"):
        model = path.removeprefix("/v1/models/")
        return ("/v1/models/{model}", model) if model else ("/v1/models", "")
    if path == "/v1/models":
        return path, ""
    if path.startswith("/v1/responses/"):
        response, slash, rest = path.removeprefix("/v1/responses/").partition("/")
        return f"/v1/responses/{{response}}{slash}{rest}", response
    return (f"/sessions/{{session}}{path}" if in_path and path in {"/traces", "/done"} else path), in_path


def refuse_response(id: str) -> RefusalError:
    message = f"Response with id {id[:100]!r} not found."
    return RefusalError(message, status=404, code="not_found", param="response_id")


def _describe_model(name: str, context: int | None) -> dict[str, Any]:
    """Its longest context goes by the names that vLLM, OpenRouter, Groq and Anthropic have for it."""
    told = ("max_model_len", "context_length", "context_window", "max_input_tokens")
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "tentalis",
        "type": "model",
        "display_name": name,
        "created_at": "1970-01-01T00:00:00Z",
        "lifecycle": "active",
        **({} if context is None else dict.fromkeys(told, context)),
    }


def _read_count(text: str | None, name: str, default: int, most: int) -> int:
    if not text:
        return default
    is_number = text.isascii() and text.isdecimal() and len(text) <= LIMITS.number_digits
    if not is_number or int(text) > most:
        message = f"{name}: wanted a whole number up to {most}, found {text[:40]!r}"
        raise RefusalError(message, status=400, code="invalid_value", param=name)
    return int(text)


def _refuse(error: RefusalError, path: str) -> Response:
    dialect = DIALECTS["messages" if path.startswith("/v1/messages") else "chat"]
    headers = dict(SERVER)
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="tentalis"'
    if error.retry_after_s is not None:
        headers["Retry-After"] = f"{error.retry_after_s:g}"
    body = dialect.error(status=error.status, message=str(error), code=error.code, param=error.param)
    return answer_json(body, headers, status=error.status)


def _json(body: Any, *, status: int = 200) -> Response:
    return answer_json(orjson.dumps(body), status=status)
