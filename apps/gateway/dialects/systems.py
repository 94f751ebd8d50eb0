"""System messages as templates take them: one, and at the beginning. Pure."""

from collections.abc import Iterable
from typing import Any

from apps.gateway.dialects.content import BLOCK_GAP, join_content, read_content_text
from apps.gateway.dialects.protocol import Body, Json

INSTRUCTIONS = "instructions"
"""Name of the system message that holds a Responses request's instructions, which a later request does not inherit.

Where more than that stands in it, how many characters of it they are is said behind a colon.
"""
REMINDER = "<system-reminder>"
_BILLING = "x-anthropic-billing-header:"


def fold_systems(messages: Iterable[Json]) -> list[Json]:
    """The same conversation with one system message: leading ones joined, later ones told as a user's reminder.

    Those stay where they are, so that a conversation's next request begins as this one: many templates refuse a system
    message anywhere but at the beginning.
    """
    folded: list[Json] = []
    for message in messages:
        if message["role"] != "system" or not folded:
            folded.append(message)
        elif len(folded) == 1 and _is_system_text(folded[0]) and _is_system_text(message):
            folded[0] = _join(folded[0], message["content"])
        else:
            folded.append({"role": "user", "content": _remind(message["content"])})
    return folded


def drop_instructions(messages: Iterable[Body]) -> list[Json]:
    """An earlier request's conversation without the instructions that were its own."""
    kept: list[Json] = []
    for message in messages:
        name, _, size = str(message.get("name") or "").partition(":")
        if message.get("role") != "system" or name != INSTRUCTIONS:
            kept.append(dict(message))
        elif size:
            kept.append({"role": "system", "content": message["content"][int(size) + len(BLOCK_GAP) :]})
    return kept


def drop_billing(text: str) -> str:
    """A system prompt without the line that Claude Code writes first for Anthropic's accounts.

    It may change from request to request, and a cache of prompts holds nothing behind what changes.
    """
    return text.partition("\n")[2].lstrip("\n") if text.startswith(_BILLING) else text


def _is_system_text(message: Body) -> bool:
    return message["role"] == "system" and isinstance(message["content"], str)


def _join(first: Json, text: str) -> Json:
    joined = {**first, "content": f"{first['content']}{BLOCK_GAP}{text}"}
    if first.get("name") == INSTRUCTIONS:
        joined["name"] = f"{INSTRUCTIONS}:{len(first['content'])}"
    return joined


def _remind(content: Any) -> str | list[Json]:
    text = read_content_text(content)
    if not text.startswith(REMINDER):
        text = f"{REMINDER}\n{text}\n</system-reminder>"
    others = [part for part in content if part.get("type") != "text"] if isinstance(content, list) else []
    return join_content([text], others)
