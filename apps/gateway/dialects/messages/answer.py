"""A chat answer as a Message."""

from collections.abc import Mapping

from apps.gateway.dialects.content import (
    Usage,
    first_choice,
    load_arguments,
    read_content_text,
    read_reasoning,
    read_usage,
)
from apps.gateway.dialects.protocol import Body, Json

UNREADABLE = "unparsed"
"""Key of a call's input under which arguments stand that are no JSON object: a Message has no other place for them."""
_STOP_REASONS = {
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}


def make_message(answer: Body, request: Body, *, id: str) -> Json:
    """A Message with what the answer's first choice says.

    Args:
        request: the Messages request.
    """
    choice = first_choice(answer)
    message = choice.get("message") or {}
    calls = message.get("tool_calls") or []
    refusal = message.get("refusal") or ""
    blocks = make_thinking(message) if shows_thinking(request) else []
    if text := read_content_text(message.get("content")) + refusal:
        blocks.append({"type": "text", "text": text})
    blocks += [_make_tool_use(call) for call in calls]
    finish = "content_filter" if refusal else choice.get("finish_reason")
    reason, sequence = read_stop(finish, choice.get("stop_reason"), has_calls=bool(calls))
    usage = read_usage(answer.get("usage"))
    return start_message(id=id, model=answer.get("model") or request.get("model")) | {
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": sequence,
        "usage": make_usage(usage),
    }


def start_message(*, id: str, model: object) -> Json:
    """A Message that has said nothing yet."""
    usage = make_usage(Usage(0, 0, 0, 0, 0))
    head = {"id": id, "type": "message", "role": "assistant", "model": model}
    return head | {"content": [], "stop_reason": None, "stop_sequence": None, "stop_details": None, "usage": usage}


def make_thinking(message: Body) -> list[Json]:
    """Thinking blocks: as a server signed them, else unsigned."""
    if signed := message.get("thinking_blocks"):
        return [dict(block) for block in signed]
    reasoning = read_reasoning(message)
    return [{"type": "thinking", "thinking": reasoning, "signature": ""}] if reasoning else []


def shows_thinking(request: Body) -> bool:
    """Whether the caller wants to see thoughts: unless it said no."""
    thinking = request.get("thinking")
    if not isinstance(thinking, Mapping):
        return True
    return thinking.get("type") != "disabled" and thinking.get("display") != "omitted"


def read_stop(finish: object, stopped_by: object, *, has_calls: bool) -> tuple[str, str | None]:
    """(stop_reason, stop_sequence).

    Args:
        stopped_by: vLLM's `stop_reason`: the stop string that was met, the id of a stop token, or None.
    """
    if has_calls and finish in (None, "stop"):
        return "tool_use", None
    if finish in (None, "stop") and isinstance(stopped_by, str):
        return "stop_sequence", stopped_by
    return _STOP_REASONS.get(str(finish), "end_turn"), None


def make_usage(usage: Usage) -> Json:
    """Anthropic counts what came from the cache, and what went there, beside the input."""
    return {
        "input_tokens": max(0, usage.prompt - usage.cached - usage.cache_write),
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.completion,
        **({"output_tokens_details": {"thinking_tokens": usage.reasoning}} if usage.reasoning else {}),
    }


def _make_tool_use(call: Body) -> Json:
    function = call.get("function") or {}
    arguments = function.get("arguments") or ""
    value = load_arguments(arguments)
    given = {UNREADABLE: arguments} if value is None else value
    return {"type": "tool_use", "id": call.get("id") or "", "name": function.get("name") or "", "input": given}
