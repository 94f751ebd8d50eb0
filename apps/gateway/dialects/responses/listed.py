"""What a Response was asked, told as the items it was asked with. Pure."""

from collections.abc import Iterable
from typing import Any

from apps.gateway.dialects.content import read_content_text, read_reasoning
from apps.gateway.dialects.protocol import Body, Json
from apps.gateway.dialects.responses.answer import make_message, make_reasoning, make_text
from apps.gateway.dialects.systems import drop_instructions


def list_items(messages: Iterable[Body], *, id: str) -> list[Json]:
    """Items of a conversation in chat messages, in their order, without the request's own instructions.

    Args:
        id: of the answer; each item's own is made of it and of its place.
    """
    items: list[Json] = []
    for message in drop_instructions(messages):
        for item in _read_message(message):
            kind = {"message": "msg", "reasoning": "rs", "function_call": "fc"}.get(item["type"], "fco")
            items.append(item | {"id": f"{kind}_{id}_in_{len(items)}"})
    return items


def _read_message(message: Body) -> list[Json]:
    role, content = message.get("role"), message.get("content")
    if role == "tool":
        output = read_content_text(content)
        call = message.get("tool_call_id")
        return [{"type": "function_call_output", "call_id": call, "output": output, "status": "completed"}]
    if role != "assistant":
        parts = [_read_part(part) for part in content] if isinstance(content, list) else []
        parts = parts or [{"type": "input_text", "text": read_content_text(content)}]
        return [{"type": "message", "role": role, "status": "completed", "content": parts}]
    items: list[Json] = []
    if thoughts := read_reasoning(message):
        items.append(make_reasoning("", thoughts, status="completed"))
    if text := read_content_text(content):
        items.append(make_message("", [make_text(text, [])], status="completed"))
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        named = {"call_id": call.get("id"), "name": function.get("name")}
        items.append(
            {"type": "function_call", **named, "arguments": function.get("arguments") or "", "status": "completed"}
        )
    return items


def _read_part(part: Any) -> Json:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "image_url":
        image = part.get("image_url") or {}
        return {"type": "input_image", "image_url": image.get("url"), "detail": image.get("detail") or "auto"}
    if kind == "file":
        return {"type": "input_file", **(part.get("file") or {})}
    return {"type": "input_text", "text": read_content_text([part])}
