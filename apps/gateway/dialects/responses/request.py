"""A Responses request as a chat request."""

from collections.abc import Sequence

from apps.gateway.dialects.protocol import BadRequestError, Body, Json
from apps.gateway.dialects.reading import read_object, read_str, refusal
from apps.gateway.dialects.responses.items import read_items
from apps.gateway.dialects.responses.tools import read_tools
from apps.gateway.dialects.systems import INSTRUCTIONS, drop_instructions, fold_systems

LOGPROBS = "message.output_text.logprobs"
_CANNOT = {
    "background": "answers in the background",
    "conversation": "stored conversations",
    "prompt": "stored prompts",
    "moderation": "moderation",
    "context_management": "compaction",
}
_SAME = ("temperature", "top_p", "user", "safety_identifier", "prompt_cache_key", "stream")


class PreviousNotFoundError(BadRequestError):
    """The answer to go on from is not known, or not the caller's; 400, as OpenAI says it."""

    code = "previous_response_not_found"

    def __init__(self, id: str) -> None:
        super().__init__(f"Previous response with id '{id[:100]}' not found.", param="previous_response_id")


def read_request(body: Body, *, earlier: Sequence[Body] | None) -> Json:
    """The same request in chat completions.

    Args:
        earlier: messages up to and with the answer that `previous_response_id` names; None: there is no such answer.
    Raises:
        BadRequestError: naming the field.
    """
    for key, what in _CANNOT.items():
        if body.get(key):
            raise BadRequestError(f"{key}: {what} are not offered here", param=key)
    messages, dropped = _read_messages(body, earlier)
    chat: Json = {"model": read_str(body, "model"), "messages": messages}
    if dropped:
        chat["dropped_items"] = dropped
    if body.get("store") is False:
        chat["store"] = False
    chat |= {key: body[key] for key in _SAME if body.get(key) is not None}
    if chat.get("stream"):
        chat["stream_options"] = {"include_usage": True}
    if (limit := body.get("max_output_tokens")) is not None:
        if type(limit) is not int or limit < 1:
            raise refusal("max_output_tokens", "a positive integer", limit)
        chat["max_tokens"] = limit
    if (effort := read_object(body.get("reasoning") or {}, at="reasoning").get("effort")) is not None:
        chat["reasoning_effort"] = effort
    if LOGPROBS in (body.get("include") or ()) or body.get("top_logprobs"):
        chat |= {"logprobs": True, "top_logprobs": body.get("top_logprobs") or 0}
    chat |= read_tools(body)
    if chat.get("tools") and body.get("parallel_tool_calls") is not None:  # servers refuse it where there are none
        chat["parallel_tool_calls"] = body["parallel_tool_calls"]
    return chat | _read_text(body)


def _read_messages(body: Body, earlier: Sequence[Body] | None) -> tuple[list[Json], list[str]]:
    """The conversation, and the types of items that were left out."""
    messages: list[Json] = []
    dropped: list[str] = []
    instructions = body.get("instructions")
    if instructions is not None and not isinstance(instructions, str):
        raise refusal("instructions", "a string", instructions)
    if instructions:
        messages.append({"role": "system", "content": instructions, "name": INSTRUCTIONS})
    if previous := body.get("previous_response_id"):
        if earlier is None:
            raise PreviousNotFoundError(str(previous))
        messages += drop_instructions(earlier)
    given = body.get("input")
    if isinstance(given, str):
        messages.append({"role": "user", "content": given})
    elif isinstance(given, list):
        found, dropped = read_items(given, at="input")
        messages += found
    else:
        raise refusal("input", "a string or a list of items", given)
    if not messages:
        raise BadRequestError("input: at least one item is required", param="input")
    return fold_systems(messages), dropped


def _read_text(body: Body) -> Json:
    text = read_object(body.get("text") or {}, at="text")
    chat: Json = {"verbosity": text["verbosity"]} if text.get("verbosity") else {}
    wanted = read_object(text.get("format") or {"type": "text"}, at="text.format")
    kind = wanted.get("type")
    if kind == "json_object":
        chat["response_format"] = {"type": "json_object"}
    elif kind == "json_schema":
        schema: Json = {"name": read_str(wanted, "name", at="text.format")}
        schema["schema"] = dict(read_object(wanted.get("schema"), at="text.format.schema"))
        schema |= {key: wanted[key] for key in ("description", "strict") if wanted.get(key) is not None}
        chat["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif kind != "text":
        raise refusal("text.format.type", "text, json_object or json_schema", kind)
    return chat
