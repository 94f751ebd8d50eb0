"""From a span that somebody else's program tells to the record of the model's call behind it. Pure.

Three vocabularies are read: OpenTelemetry's own (`tentalis.core.gen_ai`), OpenInference (`llm.input_messages.0.…`) and
Traceloop's OpenLLMetry (`gen_ai.prompt.0.…`). Spans that ask no model tell nothing that their model's calls do not.
"""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status, TracesData

from apps.gateway.bounds import BeyondBoundsError, load_bounded
from apps.gateway.record import RECORD_VERSION, Header
from apps.gateway.sessions import make_fingerprint
from apps.gateway.tables import Caller
from apps.inference.models import TOLD_BY_A_SPAN
from tentalis.core import gen_ai

Json = dict[str, Any]
Attributes = Mapping[str, Any]

OLDEST_S = 30 * 86_400.0
"""Before that long ago no call is said to have been."""
MOST_CHARS = 200
MOST_DIGITS = 9
"""Of a message's place: Python reads no integer of thousands of digits."""
_TOKENS_MOST = 2**31 - 1
_NANO = 1_000_000_000
_DETAILS = frozenset(
    {"gen_ai.client.inference.operation.details", "gen_ai.content.prompt", "gen_ai.content.completion"}
)
"""Events whose attributes are the span's own, as some programs write them."""
_SAID = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
"""Events of one message each, as the conventions had it until v1.36."""
_CHOICE = "gen_ai.choice"
_LINKS = ("traceloop.association.properties.", "")
_KINDS = {
    "azure.ai.openai": "openai",
    "gcp.gemini": "gemini",
    "gcp.gen_ai": "gemini",
    "google": "gemini",
    "x_ai": "xai",
    "moonshot_ai": "kimi",
}
"""Providers by the conventions' names that prices are kept under another of."""


class Told(NamedTuple):
    """One call of a model, as a span told it.

    Args:
        id: of the exchange: the same for the same span, however often it comes.
        has_words: what was asked and answered was told, and not only its figures.
    """

    id: str
    header: Header
    request: bytes
    answer: bytes
    has_words: bool


def read_calls(data: TracesData, caller: Caller, *, workers: frozenset[str], now: float) -> Iterator[Told]:
    """The calls of models among a batch's spans.

    Args:
        workers: names of the project's: an agent of that name is that worker.
    """
    for part in data.resource_spans:
        resource = read_attributes(part.resource.attributes)
        for scope in part.scope_spans:
            for span in scope.spans:
                attributes = {**resource, **read_attributes(span.attributes)}
                for event in span.events:
                    if event.name in _DETAILS:
                        attributes |= read_attributes(event.attributes)
                if asks_model(attributes):
                    yield _read_call(span, attributes, caller, workers=workers, now=now)


def asks_model(attributes: Attributes) -> bool:
    operation = attributes.get(gen_ai.OPERATION)
    if isinstance(operation, str):
        return operation in gen_ai.ASKS_MODEL
    kind = attributes.get("openinference.span.kind") or attributes.get("llm.request.type")
    return kind in ("LLM", "chat", "completion")


def read_attributes(given: Sequence[KeyValue]) -> Json:
    return {one.key: _read_value(one.value) for one in given}


def make_id(project: int, span: Span) -> str:
    """The exchange of a span; a batch that is sent again names the same."""
    name = f"{project}:{span.trace_id.hex()}:{span.span_id.hex()}"
    return uuid.uuid5(uuid.NAMESPACE_OID, name).hex


def _read_call(span: Span, given: Attributes, caller: Caller, *, workers: frozenset[str], now: float) -> Told:
    messages, choices = _read_asked(given, span), _read_choices(given, span)
    model = _text(given, gen_ai.REQUEST_MODEL, "llm.request.model_name", gen_ai.RESPONSE_MODEL, "llm.model_name")
    model = model or _text(_object(_load(given.get("llm.invocation_parameters"))), "model") or "unknown"
    served = _text(given, gen_ai.RESPONSE_MODEL, "llm.response.model_name") or model
    began = min(max(span.start_time_unix_nano / _NANO, now - OLDEST_S), now)
    latency_s = max(0.0, (span.end_time_unix_nano - span.start_time_unix_nano) / _NANO)
    first_s = _number(given.get(gen_ai.FIRST_CHUNK_S))
    error, status = _read_error(span, given, has_answer=bool(choices))
    usage = {
        "prompt_tokens": _count(given, gen_ai.INPUT_TOKENS, gen_ai.OLD_INPUT_TOKENS, "llm.token_count.prompt"),
        "completion_tokens": _count(
            given, gen_ai.OUTPUT_TOKENS, gen_ai.OLD_OUTPUT_TOKENS, "llm.token_count.completion"
        ),
        "prompt_tokens_details": {
            "cached_tokens": _count(given, gen_ai.CACHED_TOKENS, "llm.token_count.prompt_details.cache_read")
        },
    }
    request: Json = {"model": model, "messages": messages, **_read_settings(given)}
    answer: Json = {"model": served, "choices": choices or [_make_choice(0, {"content": ""}, "")], "usage": usage}
    provider = _text(given, gen_ai.PROVIDER, gen_ai.SYSTEM, "llm.provider", "llm.system").lower()
    worker = _text(given, gen_ai.WORKER, gen_ai.AGENT, "service.name")
    conversation = _text(given, gen_ai.CONVERSATION, gen_ai.SESSION, *_spell("session_id", "chat_id", "thread_id"))
    end_user = _text(given, gen_ai.USER, "enduser.id", *_spell("user_id"))
    # a call that stands alone in its trace is one of many, as a conversation's turns are that no span of an agent holds
    is_guessed = bool(messages) and not conversation and not span.parent_span_id
    session = conversation or span.trace_id.hex()
    id = make_id(caller.project, span)
    header: Header = {
        "v": RECORD_VERSION,
        "id": id,
        "at": began,
        "project": caller.project,
        "agent": caller.agent,
        "token": caller.token,
        "session": make_fingerprint(request, {"user": end_user}, caller) if is_guessed else session,
        "end_user": end_user,
        "is_done": False,
        "is_guessed": is_guessed,
        "is_named": not is_guessed,
        "retry": 0,
        "turn": "main" if caller.is_agent else "side",
        "task": _number_of(given, gen_ai.TASK, most=2**62),
        "step": _number_of(given, gen_ai.STEP, most=2**31 - 1),
        "worker": worker if worker in workers else "",
        "model": model,
        "asked": model,
        "served": served,
        "adapter": "",
        "policy_version": 0,
        "provider": None,
        "kind": _KINDS.get(provider, provider),
        "upstream": _text(given, "server.address", "url.full"),
        "api": TOLD_BY_A_SPAN,
        "form": "chat",
        "is_stream": False,
        "status": status,
        "is_truncated": False,
        "error": error,
        "sampling": {},
        "latency_ms": round(1000 * latency_s, 3),
        "first_ms": None if first_s is None else round(1000 * first_s, 3),
    }
    body = orjson.dumps({"error": {"message": error}}) if status >= 400 else _dump(answer)
    return Told(id, header, _dump(request), body, bool(messages))


def _read_asked(given: Attributes, span: Span) -> list[Json]:
    """What the model was told, in chat's words."""
    messages = _read_parted(_load(given.get(gen_ai.INPUT)))
    for one in messages:
        one.pop("reasoning_content", None)  # a prompt repeats what was answered, and seldom what was thought
    messages = messages or [_read_flat(one) for one in unflatten(given, "llm.input_messages", "gen_ai.prompt")]
    messages = messages or _read_events(span, _SAID)
    messages = messages or _read_prompt(given.get("gen_ai.prompt")) or _read_prompt(given.get("input.value"))
    if instructions := _join_texts(_load(given.get(gen_ai.INSTRUCTIONS))):
        messages = [{"role": "system", "content": instructions}, *messages]
    return messages


def _read_choices(given: Attributes, span: Span) -> list[Json]:
    """What it answered."""
    reasons = given.get(gen_ai.FINISH_REASONS) or [given.get("llm.finish_reason") or ""]
    reasons = reasons if isinstance(reasons, list) else []
    told = _load(given.get(gen_ai.OUTPUT))
    answers = [(one, said) for one in _objects(told) for said in _read_parted([one])]
    flat = [] if answers else unflatten(given, "llm.output_messages", "gen_ai.completion")
    answers = answers or [(one, _read_flat(one)) for one in flat]
    answers = answers or [({}, one) for one in _read_events(span, {_CHOICE: "assistant"})]
    if not answers:
        text = next((value for name in ("gen_ai.completion", "output.value") if (value := given.get(name))), "")
        answers = [({}, {"content": text})] if isinstance(text, str) and text else []
    return [
        _make_choice(place, said, _text(one, "finish_reason") or (str(reasons[place]) if place < len(reasons) else ""))
        for place, (one, said) in enumerate(answers)
    ]


def _read_settings(given: Attributes) -> Json:
    """What else was asked: tools, sampling."""
    told = {name: given[key] for name, key in gen_ai.SAMPLING.items() if given.get(key) is not None}
    parameters = _load(given.get("llm.invocation_parameters"))
    if isinstance(parameters, dict):
        told = {name: parameters[name] for name in gen_ai.SAMPLING if parameters.get(name) is not None} | told
    tools = [_name_function(one) for one in _objects(_load(given.get(gen_ai.TOOLS)))]
    tools = tools or [_name_function(one) for one in unflatten(given, "llm.request.functions")]
    if not tools:
        schemas = [_load(_object(one.get("tool")).get("json_schema")) for one in unflatten(given, "llm.tools")]
        tools = [one for one in schemas if isinstance(one, dict)]
    return told | ({"tools": tools} if tools else {})


def _read_parted(value: Any) -> list[Json]:
    """Messages of the conventions: a role and parts."""
    messages: list[Json] = []
    for one in _objects(value):
        parts = _objects(_load(one.get("parts")))
        if not parts and "content" in one:
            messages.append(_read_flat(one))
            continue
        results = [part for part in parts if part.get("type") == "tool_call_response"]
        for part in results:
            said = part.get("response", part.get("result"))
            messages.append({"role": "tool", "tool_call_id": _text(part, "id"), "content": _say(said)})
        if len(results) < len(parts) or not parts:
            messages.append({"role": _text(one, "role") or "user", **_join_parts(parts)})
    return messages


def _join_parts(parts: Sequence[Json]) -> Json:
    """One message of its parts."""
    content: list[Json] = []
    thoughts, calls = [], []
    for part in parts:
        kind = part.get("type")
        if kind == "text":
            content.append({"type": "text", "text": _say(part.get("content"))})
        elif kind == "reasoning":
            thoughts.append(_say(part.get("content")))
        elif kind == "tool_call":
            calls.append(_make_call(part))
        elif kind in ("uri", "blob", "file"):
            content.append(_make_file(part))
    message: Json = {"content": _join_content(content)}
    if calls:
        message = {"content": message["content"] or None, "tool_calls": calls}
    if thoughts:
        message["reasoning_content"] = "\n\n".join(thoughts)
    return message


def _read_flat(given: Json) -> Json:
    """A message of OpenInference or OpenLLMetry."""
    one = _object(given.get("message")) or given
    role = _text(one, "role") or "user"
    message: Json = {"role": role, "content": _read_content(one)}
    calls = [_make_call(_object(call.get("tool_call")) or call) for call in _list(one.get("tool_calls"))]
    if calls:
        message |= {"content": message["content"] or None, "tool_calls": calls}
    if role == "tool":
        message["tool_call_id"] = _text(one, "tool_call_id", "id")
    return message


def _read_content(one: Json) -> Any:
    content = one.get("content")
    if content is None:
        parts = [_object(part.get("message_content")) for part in _list(one.get("contents"))]
        return _join_content([made for part in parts if (made := _make_content(part)) is not None])
    loaded = _load(content) if isinstance(content, str) and content[:2] in ("[{", "[ ") else None
    if isinstance(loaded, list) and loaded and all(isinstance(part, dict) and "type" in part for part in loaded):
        return loaded
    return _say(content)


def _read_events(span: Span, roles: Mapping[str, str]) -> list[Json]:
    """Messages told as events of the span, one each."""
    messages = []
    for event in span.events:
        if (role := roles.get(event.name)) is None:
            continue
        body = read_attributes(event.attributes)
        said = _object(_load(body.get("message"))) or body
        message: Json = {"role": role, "content": _say(_load(said.get("content")))}
        calls = [_make_call(call) for call in _objects(_load(said.get("tool_calls")))]
        if calls:
            message |= {"content": message["content"] or None, "tool_calls": calls}
        if role == "tool":
            message["tool_call_id"] = _text(body, "id")
        messages.append(message)
    return messages


def _read_prompt(value: Any) -> list[Json]:
    """One text, or the messages in it."""
    loaded = _load(value)
    if isinstance(loaded, dict):
        loaded = loaded.get("messages")
    found = [one for one in _objects(loaded) if isinstance(one.get("role"), str)]
    if found:
        return found
    return [{"role": "user", "content": value}] if isinstance(value, str) and value else []


def unflatten(given: Attributes, *prefixes: str) -> list[Json]:
    """What `prefix.0.a.b`, `prefix.1.a.b`, … say together, of the first prefix that says anything."""
    for prefix in prefixes:
        root: Json = {}
        for name, value in given.items():
            if name.startswith(prefix + ".") and name[len(prefix) + 1 : len(prefix) + 2].isdecimal():
                _put(root, name[len(prefix) + 1 :].split("."), value)
        if root:
            return _list(root)
    return []


def _put(root: Json, path: list[str], value: Any) -> None:
    at = root
    for name in path[:-1]:
        inner = at.setdefault(name, {})
        if not isinstance(inner, dict):
            return
        at = inner
    at.setdefault(path[-1], value)


def _list(value: Any) -> list[Json]:
    """Objects in the order of their numbers, or as they are."""
    if isinstance(value, dict):
        places = [name for name in value if name.isascii() and name.isdecimal() and len(name) <= MOST_DIGITS]
        numbered = [(int(name), value[name]) for name in places]
        return [one for _, one in sorted(numbered, key=lambda pair: pair[0]) if isinstance(one, dict)]
    return _objects(_load(value))


def _make_choice(index: int, said: Json, reason: str) -> Json:
    message = {"role": "assistant", **{name: value for name, value in said.items() if name != "role"}}
    return {"index": index, "message": message, "finish_reason": "tool_calls" if reason == "tool_call" else reason}


def _make_call(call: Json) -> Json:
    function = _object(call.get("function")) or call
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)
    named = {"name": _text(function, "name"), "arguments": text}
    return {"id": _text(call, "id"), "type": "function", "function": named}


def _name_function(one: Json) -> Json:
    """A tool, as chat declares it."""
    if "function" in one:
        return one
    function = {name: _load(one[name]) for name in ("name", "description", "parameters") if name in one}
    return {"type": "function", "function": function}


def _join_content(content: list[Json]) -> Any:
    """A text where there is nothing else."""
    is_text = all(one["type"] == "text" for one in content)
    return "\n\n".join(one["text"] for one in content) if is_text else content


def _make_content(part: Json) -> Json | None:
    """A part of OpenInference's; None for one that says nothing."""
    if isinstance(text := part.get("text"), str):
        return {"type": "text", "text": text}
    for kind in ("image", "audio", "video", "document"):
        told = _object(part.get(kind))
        address = _object(told.get(kind)).get("url", told.get("url"))
        if isinstance(address, str):
            return _make_part(kind, address)
    return None


def _make_file(part: Json) -> Json:
    """A part of the conventions' that is no text."""
    kind = _text(part, "modality") or "image"
    if part.get("type") == "file":
        return {"type": "file", "file": {"file_id": _text(part, "file_id")}}
    if part.get("type") == "uri":
        return _make_part(kind, _say(part.get("uri")))
    mime_type = _text(part, "mime_type") or "application/octet-stream"
    return _make_part(kind, f"data:{mime_type};base64,{_say(part.get('content'))}")


def _make_part(kind: str, address: str) -> Json:
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": address}}
    return {"type": "file", "file": {"file_data": address}}


def _join_texts(parts: Any) -> str:
    if isinstance(parts, str):
        return parts
    return "\n\n".join(_say(one["content"]) for one in _objects(parts) if one.get("content"))


def _read_error(span: Span, given: Attributes, *, has_answer: bool) -> tuple[str, int]:
    """(what went wrong, the status that says it): ("", 200) where nothing did."""
    kind = _text(given, gen_ai.ERROR_TYPE)
    if span.status.code != Status.STATUS_CODE_ERROR and not kind:
        return "", 200
    words = span.status.message or kind or "the span says that it failed"
    if has_answer:
        return words, 200
    return words, int(kind) if kind.isascii() and kind.isdecimal() and 400 <= int(kind[:4]) <= 599 else 500


def _read_value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_read_value(one) for one in value.array_value.values]
    if kind == "kvlist_value":
        return {one.key: _read_value(one.value) for one in value.kvlist_value.values}
    if kind == "bytes_value":
        return value.bytes_value.decode("utf-8", "replace")
    return None if kind is None else getattr(value, kind)


def _load(value: Any) -> Any:
    """What a text of JSON says; anything else as it is."""
    if not isinstance(value, str) or value[:1] not in ("[", "{"):
        return value
    try:
        return load_bounded(value.encode("utf-8", "replace"))
    except (orjson.JSONDecodeError, BeyondBoundsError):
        return value


def _dump(value: Json) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # whole numbers of more than 64 bits, numbers that are none
        return json.dumps(value).encode()


def _say(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _objects(value: Any) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _spell(*names: str) -> list[str]:
    return [f"{start}{name}" for name in names for start in _LINKS]


def _text(given: Attributes, *names: str) -> str:
    """The first that says something, without what no column takes."""
    for name in names:
        value = given.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and (text := str(value).replace("\0", "")):
            return text[:MOST_CHARS]
    return ""


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value < 2**31 else None


def _number_of(given: Attributes, name: str, *, most: int) -> int | None:
    text = _text(given, name)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= most else None


def _count(given: Attributes, *names: str) -> int:
    return next((value for name in names if type(value := given.get(name)) is int and 0 <= value <= _TOKENS_MOST), 0)
