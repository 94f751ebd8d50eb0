"""Pieces of chat messages that every dialect reads: texts, reasoning, tool calls, usage."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from apps.gateway.dialects.protocol import Body, Json

BLOCK_GAP = "\n\n"
"""Between the text blocks of one message of a caller: plain text is what every chat server takes."""


class Usage(NamedTuple):
    """Tokens of an exchange. `prompt` holds `cached` and `cache_write`; `completion` holds `reasoning`."""

    prompt: int
    completion: int
    cached: int
    cache_write: int
    reasoning: int


def join_content(texts: Iterable[str], others: list[Json]) -> str | list[Json]:
    """Content of a chat message: one string if it is all text, else parts, the text first."""
    text = BLOCK_GAP.join(texts)
    if not others:
        return text
    return [*([{"type": "text", "text": text}] if text else []), *others]


def read_content_text(content: object) -> str:
    """The text of a message's content, whichever way it is written; what is no text is left out."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))


def read_reasoning(message: Body) -> str:
    """What a message or a delta thinks aloud: servers call it `reasoning_content` or `reasoning`."""
    found = message.get("reasoning_content") or message.get("reasoning")
    return found if isinstance(found, str) else ""


def read_usage(usage: object) -> Usage:
    """A chat answer's usage; zeros where the server does not tell."""
    if not isinstance(usage, dict):
        return Usage(0, 0, 0, 0, 0)
    prompt, completion = usage.get("prompt_tokens_details") or {}, usage.get("completion_tokens_details") or {}
    return Usage(
        prompt=usage.get("prompt_tokens") or 0,
        completion=usage.get("completion_tokens") or 0,
        cached=prompt.get("cached_tokens") or 0,
        cache_write=prompt.get("cache_write_tokens") or 0,
        reasoning=completion.get("reasoning_tokens") or 0,
    )


def first_choice(answer: Body) -> Body:
    """The first choice of a chat answer or chunk; empty where there is none."""
    choices = answer.get("choices")
    return choices[0] if choices else {}


def dump_arguments(value: object) -> str:
    """Arguments of a tool call as models write them: with spaces, nothing escaped."""
    return json.dumps(value, ensure_ascii=False)


def load_arguments(text: str) -> Json | None:
    """Arguments of a tool call; {} for none, None for what is no JSON object."""
    if not text.strip():
        return {}
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
