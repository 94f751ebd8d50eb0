"""A chat request as a Messages request."""

from collections.abc import Mapping, Sequence

from apps.gateway.dialects.content import BLOCK_GAP, load_arguments, read_content_text
from apps.gateway.dialects.messages.answer import UNREADABLE
from apps.gateway.dialects.protocol import BadRequestError, Body, Json
from apps.gateway.dialects.reading import read_list, read_object, read_str, refusal

DEFAULT_MAX_TOKENS = 4096
"""Messages must say how long an answer may be; this where chat does not."""
_SYSTEM = ("system", "developer")
_EFFORTS = {"minimal": "low"}


def make_request(chat: Body) -> Json:
    """The same request in Messages. What it knows nothing like (seed, penalties, log-probs) is left out.

    Raises:
        BadRequestError: naming a field without which it would be another request.
    """
    if (chat.get("n") or 1) != 1:
        raise BadRequestError("n: this model gives one answer a request", param="n")
    found = [read_object(each, at=f"messages.{index}") for index, each in enumerate(read_list(chat, "messages"))]
    messages = _make_messages(found)
    limit = chat.get("max_completion_tokens") or chat.get("max_tokens") or DEFAULT_MAX_TOKENS
    request: Json = {"model": read_str(chat, "model"), "messages": messages, "max_tokens": limit}
    system = [read_content_text(message.get("content")) for message in found if message.get("role") in _SYSTEM]
    if text := BLOCK_GAP.join(filter(None, system)):
        request["system"] = text
    request |= {key: chat[key] for key in ("top_p", "top_k", "stream") if chat.get(key) is not None}
    if (temperature := chat.get("temperature")) is not None:
        request["temperature"] = min(1.0, temperature)
    if stop := chat.get("stop"):
        request["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if chat.get("user"):
        request["metadata"] = {"user_id": chat["user"]}
    return request | _make_tools(chat) | _make_thinking(chat, found) | _make_output(chat)


def _make_messages(found: Sequence[Body]) -> list[Json]:
    """Turns without the system's. Tool results, and what the user says right behind them, are one turn."""
    turns: list[Json] = []
    answers_calls = False
    for index, message in enumerate(found):
        role, at = message.get("role"), f"messages.{index}"
        if role in _SYSTEM:
            continue
        if role == "tool":
            if not answers_calls:
                turns.append({"role": "user", "content": []})
            turns[-1]["content"].append(_make_result(message, at=at))
        elif role == "user":
            content = _make_content(message.get("content"), at=f"{at}.content")
            if answers_calls:
                turns[-1]["content"] += [{"type": "text", "text": content}] if isinstance(content, str) else content
            else:
                turns.append({"role": "user", "content": content})
        elif role == "assistant":
            if content := _make_answer(message):
                turns.append({"role": "assistant", "content": content})
        else:
            raise refusal(f"{at}.role", "system, user, assistant or tool", role)
        answers_calls = role == "tool"
    return turns


def _make_content(content: object, *, at: str) -> str | list[Json]:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise refusal(at, "a string or a list of parts", content)
    return [_make_part(read_object(part, at=f"{at}.{index}"), at=f"{at}.{index}") for index, part in enumerate(content)]


def _make_part(part: Body, *, at: str) -> Json:
    kind = part.get("type")
    if kind == "text":
        return {"type": "text", "text": part.get("text") or ""}
    if kind == "image_url":
        url = read_str(read_object(part.get("image_url"), at=f"{at}.image_url"), "url", at=f"{at}.image_url")
        return {"type": "image", "source": _make_source(url, at=at)}
    if kind == "file":
        file = read_object(part.get("file"), at=f"{at}.file")
        block: Json = {"type": "document", "source": _make_source(read_str(file, "file_data", at=f"{at}.file"), at=at)}
        return block | ({"title": file["filename"]} if file.get("filename") else {})
    raise BadRequestError(f"{at}.type: this model takes no parts of type {str(kind)[:60]}", param=f"{at}.type")


def _make_source(url: str, *, at: str) -> Json:
    if not url.startswith("data:"):
        return {"type": "url", "url": url}
    head, comma, data = url[len("data:") :].partition(",")
    media, _, encoding = head.partition(";")
    if not comma or encoding != "base64":
        raise BadRequestError(f"{at}: wanted a data URL in base64", param=at)
    return {"type": "base64", "media_type": media, "data": data}


def _make_result(message: Body, *, at: str) -> Json:
    content = _make_content(message.get("content"), at=f"{at}.content")
    return {"type": "tool_result", "tool_use_id": read_str(message, "tool_call_id", at=at), "content": content}


def _make_answer(message: Body) -> str | list[Json]:
    """An earlier answer; its thoughts only where the server signed them, for it takes no others."""
    text = read_content_text(message.get("content"))
    blocks: list[Json] = [dict(block) for block in message.get("thinking_blocks") or ()]
    calls = message.get("tool_calls") or ()
    if not blocks and not calls:
        return text
    if text:
        blocks.append({"type": "text", "text": text})
    for call in calls:
        function = call.get("function") or {}
        arguments = function.get("arguments") or ""
        value = load_arguments(arguments)
        given = {UNREADABLE: arguments} if value is None else value
        blocks.append({"type": "tool_use", "id": call.get("id"), "name": function.get("name"), "input": given})
    return blocks


def _make_tools(chat: Body) -> Json:
    if not chat.get("tools"):
        return {}
    tools = [_make_tool(tool, at=f"tools.{index}") for index, tool in enumerate(read_list(chat, "tools"))]
    wanted = chat.get("tool_choice")
    if isinstance(wanted, Mapping):
        name = read_str(read_object(wanted.get("function"), at="tool_choice.function"), "name", at="tool_choice")
        choice: Json = {"type": "tool", "name": name}
    else:
        choice = {"type": {"required": "any", "none": "none"}.get(str(wanted), "auto")}
    if chat.get("parallel_tool_calls") is not None and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = not chat["parallel_tool_calls"]
    return {"tools": tools} | ({} if choice == {"type": "auto"} and wanted is None else {"tool_choice": choice})


def _make_tool(found: object, *, at: str) -> Json:
    tool = read_object(found, at=at)
    if tool.get("type") != "function":
        raise refusal(f"{at}.type", "function", tool.get("type"))
    function = read_object(tool.get("function"), at=f"{at}.function")
    made: Json = {"name": read_str(function, "name", at=f"{at}.function")}
    made |= {key: function[key] for key in ("description", "strict") if function.get(key) is not None}
    return made | {"input_schema": function.get("parameters") or {"type": "object", "properties": {}}}


def _make_thinking(chat: Body, found: Sequence[Body]) -> Json:
    """Thinking as asked, unless a call now being answered came without signed thoughts: the server would refuse it."""
    thinking = chat.get("thinking")
    if not isinstance(thinking, Mapping):
        return {"thinking": {"type": "disabled"}} if chat.get("reasoning_effort") == "none" else {}
    asked = next((message for message in reversed(found) if message.get("role") not in ("tool", *_SYSTEM)), {})
    if found[-1].get("role") == "tool" and asked.get("tool_calls") and not asked.get("thinking_blocks"):
        return {}
    return {"thinking": dict(thinking)}


def _make_output(chat: Body) -> Json:
    output: Json = {}
    effort = chat.get("reasoning_effort")
    if effort and effort != "none" and not chat.get("thinking"):
        output["effort"] = _EFFORTS.get(effort, effort)
    wanted = chat.get("response_format") or {"type": "text"}
    kind = read_object(wanted, at="response_format").get("type")
    if kind == "json_schema":
        schema = read_object(wanted.get("json_schema"), at="response_format.json_schema").get("schema")
        output["format"] = {"type": "json_schema", "schema": schema}
    elif kind != "text":
        raise refusal("response_format.type", "text or json_schema, which is what this model knows", kind)
    return {"output_config": output} if output else {}
