"""How many tokens a Messages request is, as the server that would answer it counts them. Nothing is estimated."""

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import orjson

from apps.gateway.asking import OURS, Json, read_model
from apps.gateway.dialects import DIALECTS, fit_server, read_error
from apps.gateway.edge import Edge
from apps.gateway.errors import RefusalError
from apps.gateway.routing import Route, find_route
from apps.gateway.sessions import Place
from apps.gateway.tables import Caller
from apps.gateway.upstreams import FAR_STATUSES, AnswerTooLongError, DownError, Endpoint, read_beginning, read_whole
from tentalis.outbound.http1 import Answer, BrokenError, Target

_NO_LIMIT = {"max_tokens": 1}
"""What a request to answer must say and one to count need not."""
_COUNTS = ("input_tokens", "count")


async def count_tokens(edge: Edge, body: Json, caller: Caller, place: Place) -> int:
    """Tokens of the prompt that a Messages request would be.

    Raises:
        RefusalError: 501 where the server that would answer cannot count; else as it would for a request to answer.
        BadRequestError: the request cannot be put to that server.
    """
    route = find_route(read_model(body), place, project=caller.project, tables=edge.config.tables)
    if route.backend.kind.dialect == "anthropic":
        asked = {name: value for name, value in body.items() if name not in OURS} | {"model": route.served.name}
        return await _ask(edge, route, place, orjson.dumps(asked))
    if not route.backend.kind.tokenizes:
        message = f"{route.backend.name} ({route.backend.kind.label}) cannot count tokens without answering"
        raise RefusalError(message, status=501, code="not_supported", param="model")
    return await _ask(edge, route, place, orjson.dumps(_make_question(body, route)))


def _make_question(body: Json, route: Route) -> Json:
    """The conversation for vLLM's /tokenize, with what else the chat template looks at."""
    kind = route.backend.kind
    chat = DIALECTS["messages"].to_chat(_NO_LIMIT | body)
    chat = fit_server(chat, kind=kind.kind, reasoning_field=kind.reasoning_field)
    asked: Json = {"model": route.served.name, "messages": chat["messages"], "add_generation_prompt": True}
    names = ("tools", "add_generation_prompt", "continue_final_message")
    return {**asked, **{name: chat[name] for name in names if name in chat}, **kind.caller_fields}


async def _ask(edge: Edge, route: Route, place: Place, asked: bytes) -> int:
    """The first answer of the server's addresses."""
    name = route.backend.name
    words = "no address"
    for endpoint in edge.upstreams.order(route.backend, place.session):
        try:
            answer = await edge.upstreams.ask(route.backend, endpoint, _address(endpoint), asked)
            with closing(answer):
                if answer.status in FAR_STATUSES:
                    raise DownError(f"status {answer.status}")
                raw = await (read_whole(answer) if answer.status == 200 else read_beginning(answer))
        except AnswerTooLongError as error:
            raise RefusalError(f"{name}: {error}", status=502, code="upstream_too_long") from None
        except (DownError, BrokenError) as error:
            words = str(error)
            continue
        except TimeoutError:
            message = f"{name} was silent for {route.backend.timeout_s:g} s"
            raise RefusalError(message, status=504, code="upstream_timeout") from None
        return _read_count(route, answer, raw)
    raise RefusalError(f"{name} is down: {words}", status=503, code="upstream_down", retry_after_s=2)


def _address(endpoint: Endpoint) -> Target:
    return endpoint.tokenize or endpoint.chat._replace(path=f"{endpoint.chat.path}/count_tokens")


def _read_count(route: Route, answer: Answer, raw: bytes) -> int:
    name = route.backend.name
    if answer.status == 404:
        told = read_error(raw).message or "404"
        raise RefusalError(f"{name} does not count tokens: {told}", status=501, code="not_supported", param="model")
    if answer.status in {401, 403}:
        raise RefusalError(f"{name} refuses the key that is stored for it", status=502, code="upstream_refused_key")
    if answer.status != 200:
        words = read_error(raw)
        status = answer.status if answer.status >= 400 else 502
        raise RefusalError(f"{name}: {words.message}", status=status, code=words.code or "upstream_error")
    try:
        found: Any = orjson.loads(raw)
    except orjson.JSONDecodeError:
        found = None
    for key in _COUNTS:
        if isinstance(found, Mapping) and type(count := found.get(key)) is int:
            return count
    raise RefusalError(f"{name} gave no count: {raw[:80]!r}", status=502, code="upstream_unreadable")
