"""Read a request and plan it (`plan_request`): which upstream, which dialect, which body goes out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from apps.gateway.asking import OURS, Json, Question, make_question
from apps.gateway.dialects import UPSTREAMS, Dialect, fit_server
from apps.gateway.pins import Pin, impose
from apps.gateway.relaying import Relay
from apps.gateway.routing import Route
from apps.gateway.sessions import Place
from apps.gateway.tables import Caller

BETA_HEADER = "anthropic-beta"


@dataclass(slots=True)
class IncomingRequest:
    """A request that was read.

    Args:
        id: of the exchange, 32 hexadecimal digits. at: seconds since the epoch.
        raw: the body as it came. body: the same, in the dialect that is spoken.
        beta: the caller's `anthropic-beta`, without which Anthropic refuses some of its tools; "" where it said none.
        earlier: messages up to and with the answer that this goes on from; None: none, or none such.
    """

    id: str
    at: float
    caller: Caller
    place: Place
    dialect: Dialect
    model: str
    raw: bytes
    body: Json
    beta: str = ""
    earlier: Sequence[Json] | None = None


class RequestPlan(NamedTuple):
    """A request pointed at a server.

    Args:
        kept: the request as it is recorded, in the question's form.
        sent: the body that goes out. headers: that go with it, beside the server's own.
        relay: reads the answer.
    """

    route: Route
    question: Question
    kept: bytes
    sent: bytes
    headers: Mapping[str, str]
    relay: Relay


def plan_request(incoming: IncomingRequest, route: Route) -> RequestPlan:
    """Put a request into what the route's server takes.

    A server with legacy completions gets those as they are, and one that speaks Anthropic's Messages those. All else
    is asked in chat completions, translated where caller or server do not speak them.

    Raises:
        RefusalError, BadRequestError: it cannot be done there, or not at all.
    """
    dialect, kind = incoming.dialect, route.backend.kind
    upstream = UPSTREAMS["messages"] if kind.dialect == "anthropic" else None
    speaks_same = upstream is not None and upstream.name == dialect.name
    chat, kept, form = incoming.body, incoming.raw, "chat"
    if upstream is not None and speaks_same:
        chat = upstream.describe(incoming.body)
        kept = orjson.dumps(chat)
    elif dialect.name == "completions" and kind.has_completions:
        form = "completions"
    else:
        chat = dialect.to_chat(incoming.body, earlier=incoming.earlier)
        if dialect.name != "chat":
            kept = orjson.dumps(chat)
            chat = fit_server(
                chat,
                kind=kind.kind,
                reasoning_field=kind.reasoning_field,
                keeps_signed=kind.dialect == "anthropic",
            )
    question = make_question(chat, route, form, sampling=incoming.caller.sampling, pin=_find_pin(incoming, route))
    if speaks_same:
        sent = {name: value for name, value in incoming.body.items() if name not in OURS}
        if (pin := _find_pin(incoming, route)) is not None:
            impose(sent, pin, whole={}, takes_seed=False)
        sent["model"] = route.served.name
    elif upstream is not None:
        sent = upstream.from_chat(question.body)
    else:
        sent = question.body
    relay = Relay(
        question,
        dialect,
        incoming.body,
        id=incoming.id,
        created=int(incoming.at),
        upstream=upstream,
        passes_own=speaks_same,
    )
    headers = {BETA_HEADER: incoming.beta} if speaks_same and incoming.beta else {}
    return RequestPlan(route, question, kept, orjson.dumps(sent), headers, relay)


def _find_pin(incoming: IncomingRequest, route: Route) -> Pin | None:
    """What a request keeps to, where it goes to the worker's own model."""
    pin = incoming.place.pin
    return pin if pin is not None and route.is_managed and route.worker == pin.worker else None
