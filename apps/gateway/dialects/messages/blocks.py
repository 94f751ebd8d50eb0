"""Content blocks of Messages as pieces of chat messages."""

from apps.gateway.dialects.content import BLOCK_GAP, dump_arguments
from apps.gateway.dialects.protocol import BadRequestError, Body, Json
from apps.gateway.dialects.reading import read_object, read_str, read_text, refusal


def read_text_blocks(content: object, *, at: str) -> list[str]:
    """Texts of a list of text blocks; none for no content."""
    if content is None:
        return []
    if not isinstance(content, list):
        raise refusal(at, "a string or a list of text blocks", content)
    texts = []
    for index, found in enumerate(content):
        block = read_object(found, at=f"{at}.{index}")
        if block.get("type") != "text":
            raise refusal(f"{at}.{index}.type", "text", block.get("type"))
        texts.append(read_text(block, "text", at=f"{at}.{index}"))
    return texts


def read_part(block: Body, *, at: str) -> str | Json:
    """What a user shows: a text, or a chat content part."""
    kind = block.get("type")
    if kind == "text":
        return read_text(block, "text", at=at)
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": _read_url(block, at=at)}}
    if kind == "document":
        return _read_document(block, at=at)
    if kind == "search_result":
        head = [str(block.get("title") or ""), str(block.get("source") or "")]
        return "\n".join(filter(None, [*head, *read_text_blocks(block.get("content"), at=f"{at}.content")]))
    if kind == "tool_reference":  # what a search for tools found; all tools are offered from the beginning
        return f"Tool found: {read_str(block, 'tool_name', at=at)}"
    raise BadRequestError(f"{at}.type: blocks of type {str(kind)[:60]} are not offered here", param=f"{at}.type")


def read_tool_result(block: Body, *, at: str) -> tuple[Json, list[Json]]:
    """A tool's answer as a tool message, and the parts it shows, which chat takes from users only.

    That it is an error is said in words, for chat has no other way.
    """
    content = block.get("content")
    texts: list[str] = [content] if isinstance(content, str) else []
    parts: list[Json] = []
    if not isinstance(content, str) and content is not None:
        if not isinstance(content, list):
            raise refusal(f"{at}.content", "a string or a list of blocks", content)
        for index, found in enumerate(content):
            part = read_part(read_object(found, at=f"{at}.content.{index}"), at=f"{at}.content.{index}")
            if isinstance(part, str):
                texts.append(part)
            else:
                parts.append(part)
    text = BLOCK_GAP.join(texts)
    if block.get("is_error") and "error" not in text[:40].lower():
        text = f"Error: {text}"
    return {"role": "tool", "tool_call_id": read_str(block, "tool_use_id", at=at), "content": text}, parts


def read_assistant(content: str | list[object], *, at: str) -> Json:
    """An earlier answer. What it thought is `reasoning_content`; signatures mean nothing to other servers."""
    if isinstance(content, str):
        return {"role": "assistant", "content": content}
    text, reasoning = "", ""
    calls: list[Json] = []
    for index, found in enumerate(content):
        here = f"{at}.{index}"
        block = read_object(found, at=here)
        kind = block.get("type")
        if kind == "text":
            text += read_text(block, "text", at=here)
        elif kind == "thinking":
            reasoning += read_text(block, "thinking", at=here)
        elif kind == "tool_use":
            calls.append(_read_call(block, at=here))
        elif kind != "redacted_thinking":
            raise BadRequestError(f"{here}.type: blocks of type {str(kind)[:60]} are not offered here", param=here)
    message: Json = {"role": "assistant", "content": text or (None if calls else "")}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = calls
    return message


def _read_call(block: Body, *, at: str) -> Json:
    arguments = dump_arguments(read_object(block.get("input"), at=f"{at}.input"))
    function = {"name": read_str(block, "name", at=at), "arguments": arguments}
    return {"id": read_str(block, "id", at=at), "type": "function", "function": function}


def _read_url(block: Body, *, at: str) -> str:
    source = read_object(block.get("source"), at=f"{at}.source")
    kind = source.get("type")
    if kind == "url":
        return read_str(source, "url", at=f"{at}.source")
    if kind == "base64":
        media = read_str(source, "media_type", at=f"{at}.source")
        return f"data:{media};base64,{read_str(source, 'data', at=f'{at}.source')}"
    raise refusal(f"{at}.source.type", "base64 or url", kind)


def _read_document(block: Body, *, at: str) -> str | Json:
    source = read_object(block.get("source"), at=f"{at}.source")
    kind = source.get("type")
    if kind == "text":
        return "\n".join(filter(None, [str(block.get("title") or ""), read_text(source, "data", at=f"{at}.source")]))
    if kind == "content":
        content = source.get("content")
        return content if isinstance(content, str) else BLOCK_GAP.join(read_text_blocks(content, at=f"{at}.source"))
    if kind == "base64":
        file = {"filename": str(block.get("title") or "document.pdf"), "file_data": _read_url(block, at=at)}
        return {"type": "file", "file": file}
    raise refusal(f"{at}.source.type", "base64, text or content", kind)
