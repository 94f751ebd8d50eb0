"""Requests that no conversation is made of (embeddings, ranks, pictures, sound): asked as they are, counted, not kept.

What they say is handed on and forgotten: a row has their figures alone, as calls of ours beside an agent's work have.
"""

import logging
import re
import time
from collections.abc import Mapping
from contextlib import closing
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.db.utils import Error as DatabaseError

from apps.gateway.asking import OURS, read_model, read_object
from apps.gateway.bodies import Body
from apps.gateway.dialects import BadRequestError, read_error
from apps.gateway.dialects.content import Usage
from apps.gateway.edge import Edge
from apps.gateway.errors import RefusalError
from apps.gateway.exchange import ADAPTER_HEADER, EXCHANGE_HEADER, UNRECORDED
from apps.gateway.fetching import DOWN_RETRY_S
from apps.gateway.routing import Route, find_route
from apps.gateway.sessions import Place, find_place, read_session_headers
from apps.gateway.tables import Caller
from apps.gateway.upstreams import (
    FAR_STATUSES,
    AnswerTooLongError,
    DownError,
    Endpoint,
    read_beginning,
    read_whole,
)
from apps.inference.models import Exchange
from tentalis.core.token_use import guess_prompt_tokens
from tentalis.inbound.http1 import Request, Response
from tentalis.outbound.answers import read_retry_after
from tentalis.outbound.http1 import BrokenError, read_target

logger = logging.getLogger(__name__)

PASSED: Mapping[str, str] = {
    "/v1/embeddings": "embeddings",
    "/v1/rerank": "rerank",
    "/v1/moderations": "moderations",
    "/v1/images/generations": "images",
    "/v1/images/edits": "images",
    "/v1/audio/speech": "audio",
    "/v1/audio/transcriptions": "audio",
    "/v1/audio/translations": "audio",
}
"""Paths, and what `Exchange.api` says of them."""
_JSON = "application/json"
_BOUNDARY = re.compile(r'boundary="?([^";,]{1,200})"?', re.IGNORECASE)
_FIELD = re.compile(rb'^content-disposition:[^\r\n]*?[;\s]name="?([^"\r\n;]*)"?', re.IGNORECASE | re.MULTILINE)


class Wanted(NamedTuple):
    """A request that is passed on.

    Args:
        fields: of a JSON body; of a form none but the model. parts: of a form, the model's at `place`.
    """

    model: str
    fields: Mapping[str, Any]
    content_type: str = _JSON
    parts: tuple[bytes, ...] = ()
    place: int = 0
    mark: bytes = b""

    def write(self, model: str) -> bytes:
        """The body that asks for the model by its server's name."""
        if not self.parts:
            return orjson.dumps(
                {name: value for name, value in self.fields.items() if name not in OURS} | {"model": model}
            )
        head = self.parts[self.place].partition(b"\r\n\r\n")[0]
        parts = list(self.parts)
        parts[self.place] = head + b"\r\n\r\n" + model.encode() + b"\r\n"
        return self.mark.join(parts)


async def pass_on(edge: Edge, request: Request, caller: Caller, path: str, session: str) -> Response:
    """The server's own answer.

    Raises:
        RefusalError: nobody answered, somebody refused, or a budget is used up.
    """
    started, id = time.perf_counter(), next(edge.ids)
    arriving, reservation, is_admitted = Body(edge, caller), None, False
    try:
        raw = await arriving.read(request)
        edge.admit()
        is_admitted = True
        wanted = read_wanted(raw, request.headers.get("Content-Type", _JSON))
        place = find_place(wanted.fields, request.recall(read_session_headers), caller, in_path=session)
        route = find_route(wanted.model, place, project=caller.project, tables=edge.config.tables)
        if route.backend.kind.dialect != "openai":
            message = f"{route.backend.name} speaks Messages alone: it has no {path.removeprefix('/v1/')}"
            raise RefusalError(message, status=400, code="not_supported", param="model")
        size = len(raw) if wanted.content_type == _JSON else 0
        reservation = edge.budgets.admit(
            caller,
            route.backend,
            time.time(),
            guess=lambda: _use(guess_prompt_tokens(size)),
            count_usd=lambda use: _count_usd(edge, route, use),
            allowance=route.allowance,
        )
        endpoint, content_type, answer = await _ask(edge, route, place, path, wanted)
        use = read_use(answer) if content_type == _JSON else _use(0)
        if tokens := use.prompt + use.completion:
            edge.metrics.tokens += tokens
            edge.budgets.charge(
                caller,
                route.backend,
                tokens=tokens,
                count_usd=lambda: _count_usd(edge, route, use),
                now=time.time(),
                allowance=route.allowance,
            )
        row = Exchange(
            public_id=UUID(id),
            project_id=caller.project,
            provider_id=route.backend.key,
            worker_name=route.worker[:64],
            agent=caller.agent[:160],
            token=caller.token[:32],
            api=PASSED[path],
            turn="side",
            model=route.served.name[:200],
            adapter_name=route.served.adapter[:200],
            policy_version=route.served.version,
            prompt_tokens=use.prompt,
            completion_tokens=use.completion,
            cost_usd=_count_cost(edge, route, use),
            latency_ms=1000 * (time.perf_counter() - started),
            upstream=endpoint.base_url[:500],
        )
        await _keep(edge, row)
        edge.metrics.answers[PASSED[path], 200] += 1
        headers = {EXCHANGE_HEADER: id, ADAPTER_HEADER: route.served.name, "Content-Type": content_type}
        return Response(answer, headers)
    except BadRequestError as error:
        raise RefusalError(str(error), status=error.status, code=error.code, param=error.param) from None
    finally:
        edge.in_flight -= is_admitted
        if reservation is not None:
            reservation.release()
        arriving.let_go()


def read_wanted(raw: bytes, content_type: str) -> Wanted:
    """A body as JSON, or as a form with a field `model`.

    Raises:
        RefusalError: it is neither, or names no model, or two.
    """
    if not content_type.lower().startswith("multipart/form-data"):
        body = read_object(raw)
        return Wanted(read_model(body), body)
    found = _BOUNDARY.search(content_type)
    mark = b"--" + found[1].encode("utf-8", "replace") if found is not None else b""
    parts = tuple(raw.split(mark)) if mark else ()
    heads = [part.partition(b"\r\n\r\n")[0] for part in parts]
    places = [place for place, head in enumerate(heads) if b"model" in _FIELD.findall(head)]
    if len(places) != 1:
        message = f"wanted a form with one field model, found {len(places)}"
        raise RefusalError(message, status=400, code="invalid_value", param="model")
    model = parts[places[0]].partition(b"\r\n\r\n")[2].strip().decode("utf-8", "replace")
    return Wanted(model, {"model": model}, content_type, parts, places[0], mark)


def read_use(answer: bytes) -> Usage:
    """What an answer says that it used, by the names that servers have for it; zeros where it does not."""
    try:
        body = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return _use(0)
    found = body.get("usage") if isinstance(body, dict) else None
    usage: Mapping[str, Any] = found if isinstance(found, dict) else {}
    read, made = (
        _count(usage, f"{one}_tokens", f"{other}_tokens")
        for one, other in (("prompt", "input"), ("completion", "output"))
    )
    return _use(read or max(0, _count(usage, "total_tokens") - made), made)


async def _ask(edge: Edge, route: Route, place: Place, path: str, wanted: Wanted) -> tuple[Endpoint, str, bytes]:
    """The first answer of the server's addresses, with its content type."""
    backend = route.backend
    sent = wanted.write(route.served.name)
    down = DownError("no address")
    for endpoint in edge.upstreams.order(backend, place.session):
        url = read_target(endpoint.api + path.removeprefix("/v1"))
        try:
            answer = await edge.upstreams.ask(backend, endpoint, url, sent, {"Content-Type": wanted.content_type})
            with closing(answer):
                raw = await (read_whole(answer) if answer.status == 200 else read_beginning(answer))
        except AnswerTooLongError as error:
            raise RefusalError(f"{backend.name}: {error}", status=502, code="upstream_too_long") from None
        except TimeoutError:
            message = f"{backend.name} was silent for {backend.timeout_s:g} s"
            raise RefusalError(message, status=504, code="upstream_timeout") from None
        except DownError as error:
            down = error
            continue
        except BrokenError:
            down = DownError("its answer broke off")
            continue
        wait_s = read_retry_after(answer.headers)
        if answer.status in FAR_STATUSES:
            down = DownError(f"status {answer.status}", wait_s=wait_s)
            continue
        if answer.status != 200:
            raise _read_refusal(backend.name, answer.status, raw, wait_s)
        return endpoint, answer.headers.get("Content-Type", _JSON).partition(";")[0].strip().lower(), raw
    retry_s = DOWN_RETRY_S if down.wait_s is None else down.wait_s
    raise RefusalError(f"{backend.name} is down: {down}", status=503, code="upstream_down", retry_after_s=retry_s)


def _read_refusal(name: str, status: int, raw: bytes, wait_s: float | None) -> RefusalError:
    if status in {401, 403}:
        return RefusalError(f"{name} refuses the key that is stored for it", status=502, code="upstream_refused_key")
    words = read_error(raw)
    status = status if status >= 400 else 502
    code = words.code or "upstream_error"
    message = f"{name}: {words.message or status}"
    return RefusalError(message, status=status, code=code, param=words.param, retry_after_s=wait_s)


async def _keep(edge: Edge, row: Exchange) -> None:
    """Raises RefusalError: what cannot be counted is not given."""
    try:
        await edge.config.ask(row.save)
    except DatabaseError as error:
        logger.error("a request for %s is not counted: %s", row.api, error)
        raise RefusalError(UNRECORDED, status=503, code="unavailable", retry_after_s=5) from error


def _count_usd(edge: Edge, route: Route, use: Usage) -> float:
    return float(_count_cost(edge, route, use) or 0)


def _count_cost(edge: Edge, route: Route, use: Usage) -> Decimal | None:
    """None where no price is known."""
    backend, prices = route.backend, edge.config.tables.prices
    rates = prices.find(provider_id=backend.key, kind=backend.kind.kind, model=route.served.name)
    return None if rates is None else rates.cost(prompt=use.prompt, completion=use.completion, cached=0)


def _use(prompt: int, completion: int = 0) -> Usage:
    return Usage(prompt=prompt, completion=completion, cached=0, cache_write=0, reasoning=0)


def _count(usage: Mapping[str, Any], *names: str) -> int:
    return next((usage[name] for name in names if type(usage.get(name)) is int and 0 <= usage[name] < 2**31), 0)
