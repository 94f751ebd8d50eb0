"""A Messages request as a chat request."""

from collections.abc import Iterator, Mapping

from apps.gateway.dialects.content import BLOCK_GAP, join_content
from apps.gateway.dialects.messages.blocks import (
    read_assistant,
    read_part,
    read_text_blocks,
    read_tool_result,
)
from apps.gateway.dialects.protocol import BadRequestError, Body, Json
from apps.gateway.dialects.reading import read_list, read_object, read_str, refusal
from apps.gateway.dialects.systems import drop_billing, fold_systems

_EFFORTS = ((2048, "low"), (8192, "medium"))
_CANNOT = ("mcp_servers", "container")
"""What would have to run on Anthropic's own servers."""


_RUN_BY_ANTHROPIC = ("web_search_", "web_fetch_", "code_execution_", "tool_search_tool_", "advisor_")
"""How the types of tools begin that Anthropic's servers run themselves; the caller can do without."""


def read_request(body: Body, *, drops_tools: bool = True) -> Json:
    """The same request in chat completions.

    Args:
        drops_tools: tools that Anthropic's servers run are left out, as `dropped_tools`; else they are refused.
    Raises:
        BadRequestError: naming the field.
    """
    max_tokens = body.get("max_tokens")
    if type(max_tokens) is not int or max_tokens < 1:
        raise refusal("max_tokens", "a positive integer", max_tokens)
    for key in _CANNOT:
        if body.get(key):
            raise BadRequestError(f"{key}: not offered here: it needs Anthropic's own servers", param=key)
    messages = fold_systems([*_read_system(body.get("system")), *_read_messages(body)])
    chat: Json = {"model": read_str(body, "model"), "messages": messages, "max_tokens": max_tokens}
    for key in ("temperature", "top_p", "top_k", "stream"):
        if body.get(key) is not None:
            chat[key] = body[key]
    if chat.get("stream"):
        chat["stream_options"] = {"include_usage": True}
    if stop := body.get("stop_sequences"):
        chat["stop"] = stop
    if user := _read_user(body.get("metadata")):
        chat["user"] = user
    if messages[-1]["role"] == "assistant":
        chat |= {"add_generation_prompt": False, "continue_final_message": True}
    return chat | _read_tools(body, drops=drops_tools) | _read_thinking(body) | _read_output(body)


def describe_request(body: Body) -> Json:
    """A request to a server of Anthropic's as it is recorded: in chat, where chat can say it.

    Built-in tools, their blocks and other fields that chat has no word for stay as the caller wrote them: the server is
    sent the request itself, and is its judge.

    Raises:
        BadRequestError: it holds no model, or no messages.
    """
    try:
        return read_request(body, drops_tools=False)
    except BadRequestError:
        model, found = read_str(body, "model"), read_list(body, "messages")
    described = {name: value for name, value in body.items() if name != "system"}
    messages = _describe({"role": "system", "content": body.get("system")}, at="system") if body.get("system") else []
    for index, each in enumerate(found):
        messages += _describe(read_object(each, at=f"messages.{index}"), at=f"messages.{index}")
    return described | {"model": model, "messages": messages}


def _describe(message: Body, *, at: str) -> list[Json]:
    try:
        return list(_read_message(message, at=at))
    except BadRequestError:
        return [dict(message)]


def _read_system(system: object) -> list[Json]:
    text = system if isinstance(system, str) else BLOCK_GAP.join(read_text_blocks(system, at="system"))
    text = drop_billing(text)
    return [{"role": "system", "content": text}] if text else []


def _read_messages(body: Body) -> list[Json]:
    found = read_list(body, "messages")
    if not found:
        raise BadRequestError("messages: at least one message is required", param="messages")
    return [message for index, each in enumerate(found) for message in _read_message(each, at=f"messages.{index}")]


def _read_message(found: object, *, at: str) -> Iterator[Json]:
    message = read_object(found, at=at)
    role, content = message.get("role"), message.get("content")
    if not isinstance(content, str | list):
        raise refusal(f"{at}.content", "a string or a list of blocks", content)
    if role == "assistant":
        yield read_assistant(content, at=f"{at}.content")
    elif role == "user":
        yield from _read_user_turn(content, at=f"{at}.content")
    elif role == "system":
        yield from _read_system(content)
    else:
        raise refusal(f"{at}.role", "user, assistant or system", role)


def _read_user_turn(content: str | list[object], *, at: str) -> Iterator[Json]:
    """Tool results first, as chat wants them right behind the calls; then what the user says."""
    if isinstance(content, str):
        yield {"role": "user", "content": content}
        return
    texts: list[str] = []
    parts: list[Json] = []
    for index, found in enumerate(content):
        block = read_object(found, at=f"{at}.{index}")
        if block.get("type") == "tool_result":
            result, shown = read_tool_result(block, at=f"{at}.{index}")
            parts += shown
            yield result
        elif isinstance(part := read_part(block, at=f"{at}.{index}"), str):
            texts.append(part)
        else:
            parts.append(part)
    if texts or parts:
        yield {"role": "user", "content": join_content(texts, parts)}


def _read_user(metadata: object) -> str:
    user = metadata.get("user_id") if isinstance(metadata, Mapping) else None
    return user if isinstance(user, str) else ""


def _read_tools(body: Body, *, drops: bool) -> Json:
    chat: Json = {}
    dropped: list[str] = []
    if body.get("tools"):
        kept: list[Json] = []
        for index, found in enumerate(read_list(body, "tools")):
            tool = read_object(found, at=f"tools.{index}")
            if drops and str(tool.get("type") or "").startswith(_RUN_BY_ANTHROPIC):
                dropped.append(read_str(tool, "name", at=f"tools.{index}")[:60])
            else:
                kept.append(_read_tool(tool, at=f"tools.{index}"))
        chat |= ({"tools": kept} if kept else {}) | ({"dropped_tools": dropped} if dropped else {})
    if not (choice := body.get("tool_choice")):
        return chat
    kind = read_object(choice, at="tool_choice").get("type")
    if kind == "tool":
        name = read_str(choice, "name", at="tool_choice")
        if name in dropped:
            words = f"tool_choice.name: the built-in tool {name} needs a server of Anthropic's"
            raise BadRequestError(words, param="tool_choice.name")
        chat["tool_choice"] = {"type": "function", "function": {"name": name}}
    elif kind == "any" and "tools" not in chat:
        left_out = f"; found {', '.join(dropped)[:200]}" if dropped else ""
        message = f"tool_choice.type: no tool that could be called is offered here{left_out}"
        raise BadRequestError(message, param="tool_choice.type")
    elif kind in (plain := {"auto": "auto", "any": "required", "none": "none"}):
        if "tools" in chat:  # a choice among none is refused by servers
            chat["tool_choice"] = plain[kind]
    else:
        raise refusal("tool_choice.type", "auto, any, tool or none", kind)
    if chat.get("tools") and choice.get("disable_parallel_tool_use") is not None:
        chat["parallel_tool_calls"] = not choice["disable_parallel_tool_use"]
    return chat


def _read_tool(tool: Body, *, at: str) -> Json:
    if (kind := tool.get("type") or "custom") != "custom":
        words = f"{at}.type: the built-in tool {str(kind)[:60]} needs a server of Anthropic's; give it as custom"
        raise BadRequestError(words, param=at)
    function: Json = {"name": read_str(tool, "name", at=at)}
    if tool.get("description"):
        function["description"] = tool["description"]
    function["parameters"] = dict(read_object(tool.get("input_schema"), at=f"{at}.input_schema"))
    if tool.get("strict") is not None:
        function["strict"] = tool["strict"]
    return {"type": "function", "function": function}


def _read_thinking(body: Body) -> Json:
    """The budget as an effort, which is what chat servers know."""
    thinking = body.get("thinking")
    if thinking is None:
        return {}
    kind = read_object(thinking, at="thinking").get("type")
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        if type(budget) is not int or budget < 1:
            raise refusal("thinking.budget_tokens", "a positive integer", budget)
        return {"reasoning_effort": next((effort for most, effort in _EFFORTS if budget <= most), "high")}
    if kind not in ("disabled", "adaptive", "between_tools"):
        raise refusal("thinking.type", "enabled, disabled, adaptive or between_tools", kind)
    return {}


def _read_output(body: Body) -> Json:
    output = read_object(body.get("output_config") or {}, at="output_config")
    chat: Json = {}
    if effort := output.get("effort"):
        chat["reasoning_effort"] = "high" if effort == "max" else effort
    if wanted := output.get("format"):
        if read_object(wanted, at="output_config.format").get("type") != "json_schema":
            raise refusal("output_config.format.type", "json_schema", wanted.get("type"))
        schema = dict(read_object(wanted.get("schema"), at="output_config.format.schema"))
        chat["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "output", "schema": schema, "strict": True},
        }
    return chat
