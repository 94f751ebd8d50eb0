"""Trying out a model server: a few small real calls, and what each showed."""

import copy
import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from django.utils import timezone

from apps.accounts.models import User
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.connections import give_back_connections
from apps.base.errors import TentalisError
from apps.inference.anthropic import to_anthropic
from apps.inference.client import ModelClient
from apps.inference.errors import ProviderRefusedError
from apps.inference.faults import Fault, explain
from apps.inference.lora_routes import HOW_TO_LOAD
from apps.inference.models import Provider
from apps.inference.prices import find_price
from apps.inference.provider_kinds import ProviderKind, find_kind
from apps.inference.providers import open_key, require_owner_of
from apps.inference.transport import HOW_TO_ALLOW, Transport
from tentalis.outbound.addresses import NO_PUBLIC_ADDRESS, check_url
from tentalis.outbound.exposure import warn_of_exposure

TIMEOUT_S = 10.0
MOST_S = 12.0
"""A person waits for the answer, and a web thread with them."""
MAX_TOKENS = 64
MODELS_SHOWN = 50
_QUESTION = [{"role": "user", "content": "Answer with the one word: ready"}]
_TOOL_QUESTION = [{"role": "user", "content": "What is the weather in Oslo? Ask the tool."}]
_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a town.",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
    },
}


@dataclass(kw_only=True)
class Probe:
    """What a test of a model server showed. None: it was not asked, or could not be seen.

    Args:
        ok: it answered a question.
        fault, words: what was wrong, or how it went, in a word and a sentence.
        model: what was asked. models: what it says it serves, a part.
        is_reachable: something answers there. accepts_key, knows_model: as far as it came.
        tells_tokens, tells_logprobs: exact token ids of prompt and answer; their log-probs.
        can_train: both: what it says can be trained on.
        loads_adapters: while it runs; without it what is trained cannot be served there.
        streams, calls_tools: tried.
        latency_ms: of the answer; first_token_ms: of the stream's first words.
        context_tokens: of prompt and answer together, where the server says.
        is_priced: it is known what the model costs.
        remarks: what else a person should know.
    """

    ok: bool = False
    fault: str = ""
    words: str = ""
    model: str = ""
    models: list[str] = field(default_factory=list)
    is_reachable: bool | None = None
    accepts_key: bool | None = None
    knows_model: bool | None = None
    tells_tokens: bool | None = None
    tells_logprobs: bool | None = None
    can_train: bool = False
    loads_adapters: bool | None = None
    streams: bool | None = None
    calls_tools: bool | None = None
    latency_ms: float | None = None
    first_token_ms: float | None = None
    context_tokens: int | None = None
    is_priced: bool = False
    remarks: list[str] = field(default_factory=list)


_UNREACHED = frozenset({"address", "dns", "refused_connection", "timeout", "tls"})


def probe_provider(*, provider: Provider, by: User, model: str = "", most_s: float = MOST_S) -> Probe:
    """Ask a model server a few small questions, keep and return what they showed. It costs a few hundred tokens.

    Args:
        model: "": the provider's own, or else the first it lists.
        most_s: after so long what was found until then is the answer, whatever the server does.
    Raises:
        NotAllowedError, NotFoundError: `by` may not.
    """
    require_owner_of(provider.project, by)
    kind = find_kind(provider.kind)
    probe = Probe(model=model or provider.default_model)
    try:
        key = open_key(provider)
        transport = Transport(kind, provider.base_url, key, timeout_s=TIMEOUT_S, allow_private=provider.allow_private)
    except TentalisError as error:
        _blame(probe, explain(error, kind))
    else:
        client = ModelClient(provider.base_url, key, provider.kind, TIMEOUT_S, provider.allow_private)
        give_back_connections()  # it may take as long as that server likes
        probe = _try_in_time(probe, lambda tried: _try_all(tried, kind, client, transport, has_key=bool(key)), most_s)
    if probe.fault == "dns" and not provider.allow_private:  # else the test would tell which names are known inside
        host = check_url(provider.base_url).host
        _blame(probe, Fault("address", f"{transport.root}: {NO_PUBLIC_ADDRESS.format(host=host)}. {HOW_TO_ALLOW}"))
    if warning := warn_of_exposure(provider.kind, provider.base_url):
        probe.remarks.append(warning)
    if probe.model:
        probe.is_priced = find_price(provider=provider, kind=provider.kind, model=probe.model) is not None
    provider.probe = dataclasses.asdict(probe)
    provider.probed_at = timezone.now()
    provider.save(update_fields=["probe", "probed_at"])
    payload = {"ok": probe.ok, "fault": probe.fault, "model": probe.model}
    record(Kind.PROVIDER_TESTED, subject=provider, by=by.handle, payload=payload)
    return probe


def _try_in_time(probe: Probe, try_all: Callable[[Probe], None], most_s: float) -> Probe:
    """Let a thread ask, and wait for it no longer than that: a server that says a word now and then ends no timeout."""
    asking = ThreadPoolExecutor(1, thread_name_prefix="probe")
    under_way = asking.submit(try_all, probe)
    asking.shutdown(wait=False)
    try:
        under_way.result(most_s)
    except TimeoutError:
        probe = copy.deepcopy(probe)  # the thread may yet write into its own
        words = f"it took longer than {most_s:g} s, and the rest was not waited for"
        if probe.ok:
            probe.words = probe.words or f"{probe.model} answers"
            probe.remarks.append(f"The test was cut short: {words}.")
        elif not probe.fault:
            _blame(probe, Fault("timeout", words))
    return probe


def _try_all(probe: Probe, kind: ProviderKind, client: ModelClient, transport: Transport, *, has_key: bool) -> None:
    if not _try_models(probe, kind, client):
        return
    if not probe.model:
        _blame(probe, Fault("no_model", "name a model to ask: the server lists none and the provider has no default"))
        return
    if not _try_answer(probe, kind, client, has_key=has_key):
        return
    probe.ok = True
    _try_length(probe, kind, client)
    _try_adapters(probe, kind, client)
    _try_stream(probe, kind, transport)
    _try_tools(probe, client)
    trained = "what it says can be trained on" if probe.can_train else "what it says cannot be trained on"
    probe.words = f"{probe.model} answered in {probe.latency_ms:.0f} ms; {trained}"
    if not probe.can_train:
        probe.remarks.append("Training takes exact token ids and log-probs: the Tentalis engine and vLLM tell them.")


def _try_models(probe: Probe, kind: ProviderKind, client: ModelClient) -> bool:
    """Whether it is worth asking on: servers without a list, or that keep theirs to themselves, may still answer."""
    if not kind.lists_models:
        return True
    try:
        models = client.list_models()
    except TentalisError as error:
        fault = explain(error, kind)
        probe.is_reachable = fault.code in {"key", "payment", "limited", "dialect", "refused", "redirect", "broken"}
        if fault.code == "key":
            probe.accepts_key = False
        if probe.model and fault.code in {"dialect", "refused", "key"}:
            probe.remarks.append(f"It does not list its models: {fault.words}")
            return True
        _blame(probe, fault)
        return False
    probe.is_reachable = True
    probe.models = models[:MODELS_SHOWN]
    probe.model = probe.model or (models[0] if models else "")
    probe.knows_model = probe.model in models if models else None
    return True


def _try_answer(probe: Probe, kind: ProviderKind, client: ModelClient, *, has_key: bool) -> bool:
    started = perf_counter()
    wanted = {"logprobs": True} if kind.tells_logprobs and not kind.tells_tokens else {}
    try:
        try:
            [sample] = client.chat(_QUESTION, model=probe.model, max_tokens=MAX_TOKENS, extra=wanted)
        except ProviderRefusedError as error:
            if not wanted or error.http_status != 400:
                raise
            probe.remarks.append("This model refuses to tell log-probs.")
            started = perf_counter()
            [sample] = client.chat(_QUESTION, model=probe.model, max_tokens=MAX_TOKENS)
    except TentalisError as error:
        fault = explain(error, kind)
        probe.is_reachable = probe.is_reachable or fault.code not in _UNREACHED
        if fault.code == "key":
            probe.accepts_key = False
        if fault.code == "model":
            probe.knows_model = False
            if probe.models:
                probe.remarks.append(f"It serves {', '.join(probe.models[:8])}.")
        _blame(probe, fault)
        return False
    probe.latency_ms = (perf_counter() - started) * 1000
    probe.is_reachable = probe.knows_model = True
    probe.accepts_key = True if has_key else None
    probe.tells_tokens = bool(sample.token_ids and sample.prompt_token_ids)
    probe.tells_logprobs = bool(sample.logprobs)
    probe.can_train = sample.has_exact_tokens
    if not sample.text.strip() and not sample.reasoning:
        probe.remarks.append(f"The answer was empty ({sample.finish_reason or 'no reason given'}).")
    if not any(sample.use):
        probe.remarks.append("It does not count tokens: what calls cost is not known.")
    if not has_key:
        probe.remarks.append("It answers without a key.")
    return True


def _try_length(probe: Probe, kind: ProviderKind, client: ModelClient) -> None:
    """How long a conversation may be: of a vendor's model everybody knows it, of one's own only the server."""
    if not (kind.is_local or kind.kind == "custom"):
        return
    with suppress(TentalisError):
        probe.context_tokens = client.find_context(probe.model)
    if probe.context_tokens is not None:
        probe.remarks.append(f"Prompt and answer may have {probe.context_tokens:,} tokens together.")
    else:
        probe.remarks.append(
            "It does not say how many tokens prompt and answer may have together: where that is little, set a worker's "
            "longest answer (max_tokens), which is 1,024 where nothing is set."
        )


def _try_adapters(probe: Probe, kind: ProviderKind, client: ModelClient) -> None:
    if not kind.loads_adapters:
        probe.loads_adapters = False
        return
    try:
        probe.loads_adapters = client.can_load_adapters()
    except TentalisError as error:
        probe.remarks.append(f"Whether it loads adapters could not be seen: {explain(error, kind).words}")
        return
    if not probe.loads_adapters:
        probe.remarks.append(f"It loads no adapters: {HOW_TO_LOAD}.")


def _try_stream(probe: Probe, kind: ProviderKind, transport: Transport) -> None:
    body: dict[str, Any] = {"model": probe.model, "messages": _QUESTION, kind.max_tokens_field: MAX_TOKENS}
    if kind.dialect == "anthropic":
        body = to_anthropic(body)
    elif kind.streams_usage:
        body["stream_options"] = {"include_usage": True}
    started = perf_counter()
    counted = events = 0
    try:
        for event in transport.stream(transport.chat_path, {**body, "stream": True}):
            if events == 0:
                probe.first_token_ms = (perf_counter() - started) * 1000
            events += 1
            counted += bool(event.get("usage"))
    except TentalisError as error:
        probe.streams = False
        probe.remarks.append(f"It does not stream: {explain(error, kind).words}")
        return
    probe.streams = events > 1
    if not probe.streams:
        probe.remarks.append("It was asked to stream and gave its answer whole.")
    elif not counted and kind.dialect == "openai":
        probe.remarks.append("Its streams do not count tokens: what streamed calls cost is not known.")


def _try_tools(probe: Probe, client: ModelClient) -> None:
    try:
        [sample] = client.chat(_TOOL_QUESTION, model=probe.model, max_tokens=4 * MAX_TOKENS, extra={"tools": [_TOOL]})
    except ProviderRefusedError as error:
        probe.calls_tools = False
        probe.remarks.append(f"It takes no tools: {error}")
    except TentalisError as error:
        probe.remarks.append(f"Tools could not be tried: {error}")
    else:
        probe.calls_tools = bool(sample.tool_calls)
        if not probe.calls_tools:
            probe.remarks.append("It was offered a tool and did not call it.")


def _blame(probe: Probe, fault: Fault) -> None:
    probe.fault, probe.words = fault
