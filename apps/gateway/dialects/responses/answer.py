"""A chat answer as a Response."""

from collections.abc import Mapping, Sequence

from apps.gateway.dialects.content import first_choice, read_content_text, read_reasoning, read_usage
from apps.gateway.dialects.protocol import Body, Json
from apps.gateway.dialects.responses.tools import Tool, find_tools, is_offered, read_custom_input

_ECHOED = (
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "safety_identifier",
    "temperature",
    "top_p",
    "user",
)
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def make_response(answer: Body, request: Body, *, id: str) -> Json:
    """A Response with what the answer's first choice says.

    Args:
        request: the Responses request.
        id: without the prefixes of responses and items.
    """
    choice = first_choice(answer)
    message = choice.get("message") or {}
    status = status_of(choice.get("finish_reason"))
    items: list[Json] = []
    if reasoning := read_reasoning(message):
        items.append(make_reasoning(f"rs_{id}", reasoning, status="completed"))
    logprobs = (choice.get("logprobs") or {}).get("content")
    parts = []
    if text := read_content_text(message.get("content")):
        parts.append(make_text(text, make_logprobs(logprobs)))
    if refusal := message.get("refusal"):
        parts.append({"type": "refusal", "refusal": refusal})
    if parts:
        items.append(make_message(f"msg_{id}", parts, status=status))
    calls = message.get("tool_calls") or ()
    tools = find_tools(request) if calls else {}
    for call in calls:
        function = call.get("function") or {}
        item = make_call(id, len(items), call_id=call.get("id"), name=function.get("name"), tools=tools)
        items.append(fill_call(item, function.get("arguments") or "", status="completed"))
    head = start_response(request, id=id, model=answer.get("model"), created=answer.get("created"))
    return head | end_of(choice.get("finish_reason")) | {"output": items, "usage": make_usage(answer.get("usage"))}


def start_response(request: Body, *, id: str, model: object, created: object) -> Json:
    """A Response in progress, with the request's settings, as OpenAI repeats them."""
    text = request.get("text") if isinstance(request.get("text"), Mapping) else {}
    reasoning = request.get("reasoning") if isinstance(request.get("reasoning"), Mapping) else {}
    return {
        "id": f"resp_{id}",
        "object": "response",
        "created_at": created if isinstance(created, int | float) else 0,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        **{key: request.get(key) for key in _ECHOED},
        "metadata": request.get("metadata") or {},
        "model": model or request.get("model"),
        "output": [],
        "parallel_tool_calls": request.get("parallel_tool_calls") is not False,
        "reasoning": {"effort": None, "summary": None} | dict(reasoning or {}),
        "service_tier": "default",
        "store": request.get("store") is not False,
        "text": {"format": {"type": "text"}} | dict(text or {}),
        "tool_choice": request.get("tool_choice") or "auto",
        "tools": [
            {"parameters": None, "strict": None} | tool if tool.get("type") == "function" else tool
            for tool in request.get("tools") or ()
            if is_offered(tool)
        ],
        "top_logprobs": request.get("top_logprobs") or 0,
        "truncation": request.get("truncation") or "disabled",
        "usage": None,
    }


def status_of(finish: object) -> str:
    """completed, or incomplete where the answer was cut."""
    return "incomplete" if finish in _INCOMPLETE else "completed"


def end_of(finish: object) -> Json:
    """The fields in which an ended Response differs from one in progress, but for output and usage."""
    reason = _INCOMPLETE.get(str(finish))
    return {"status": status_of(finish), "incomplete_details": {"reason": reason} if reason else None}


def make_reasoning(id: str, text: str, *, status: str) -> Json:
    """Thoughts in full are an item's content; a summary would be less. `id` is the item's own."""
    content = [{"type": "reasoning_text", "text": text}] if text else []
    return {"id": id, "type": "reasoning", "summary": [], "content": content, "status": status}


def make_message(id: str, parts: Sequence[Json], *, status: str) -> Json:
    return {"id": id, "type": "message", "role": "assistant", "status": status, "content": list(parts)}


def make_text(text: str, logprobs: list[Json]) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}


def make_call(id: str, index: int, *, call_id: object, name: object, tools: Mapping[str, Tool]) -> Json:
    """A call that has no arguments yet.

    Args:
        id: of the answer.
        index: of the item in the output.
        name: of the function that the model called. tools: what functions stand for, by name.
    """
    tool = tools.get(str(name)) or Tool(str(name or ""), "", is_custom=False)
    kind = "custom_tool_call" if tool.is_custom else "function_call"
    call: Json = {"id": f"{'ctc' if tool.is_custom else 'fc'}_{id}_{index}", "type": kind, "status": "in_progress"}
    call |= {"call_id": call_id or f"call_{id}_{index}", "name": tool.name}
    if tool.namespace:
        call["namespace"] = tool.namespace
    return call | {"input" if tool.is_custom else "arguments": ""}


def fill_call(call: Json, arguments: str, *, status: str) -> Json:
    """A call with the arguments that the model wrote."""
    if call["type"] == "custom_tool_call":
        return call | {"input": read_custom_input(arguments), "status": status}
    return call | {"arguments": arguments, "status": status}


def make_logprobs(entries: object) -> list[Json]:
    """Log-probs of chat (natural log) as Responses has them, where every token has its bytes."""
    if not isinstance(entries, Sequence):
        return []
    return [
        _make_logprob(entry) | {"top_logprobs": [_make_logprob(top) for top in entry.get("top_logprobs") or ()]}
        for entry in entries
    ]


def make_usage(usage: object) -> Json:
    read = read_usage(usage)
    return {
        "input_tokens": read.prompt,
        "input_tokens_details": {"cached_tokens": read.cached, "cache_write_tokens": read.cache_write},
        "output_tokens": read.completion,
        "output_tokens_details": {"reasoning_tokens": read.reasoning},
        "total_tokens": read.prompt + read.completion,
    }


def _make_logprob(entry: Body) -> Json:
    token = entry.get("token") or ""
    found = entry.get("bytes")
    spelled = list(token.encode()) if found is None else found
    return {"token": token, "bytes": spelled, "logprob": entry.get("logprob") or 0.0}
