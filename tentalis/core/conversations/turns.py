"""Where one turn of a conversation ends and the next begins: what a person said, and what only looks like it."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any, Final, NamedTuple

from tentalis.core.conversations.machine import is_observation

WRAPPERS: Final = (
    ("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>", "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"),
    ("<system-reminder>", "</system-reminder>"),
    ("<environment_context>", "</environment_context>"),
    ("<environment_details>", "</environment_details>"),
)
"""What agents put around words of their own in a message of role user: OpenClaw, Claude Code, Codex, Cline."""
_WRAPPED: Final = re.compile(
    "|".join(f"{re.escape(opened)}.*?(?:{re.escape(closed)}|\\Z)" for opened, closed in WRAPPERS), re.DOTALL
)
_DOCUMENTS: Final = ("### Task:\nRespond to the user query using the provided ", "</context>")
"""Between which Open WebUI writes documents before a person's words; when they are answered it repeats them alone."""
_QUERY: Final = ("<user_query>", "</user_query>")
_ENVELOPE: Final = re.compile(
    r"\A\[(?P<about>[^\[\]\n]{0,300}?)(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?"
    r"\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?(?: [^\[\]\n]{1,40})?\] (?:(?P<who>[^\n:]{1,120}): )?"
)
"""OpenClaw's before a person's words: `[Sat 2026-01-05 16:26 UTC] `, `[WhatsApp Alice +30s Mon … PST] Alice: `."""
_RUNTIME: Final = re.compile(r"Runtime: \w+=[^\n]* \| ")
"""OpenClaw's last line behind the first of them, moved there out of its system prompt."""
MOST_PLACES: Final = 100
"""Places in a message that are tried for a person's words."""
_NAMELESS: Final = frozenset({"(self)", "(sender)"})
_INTERRUPTED: Final = re.compile(r"\A\[Request interrupted by user[^\]\n]{0,40}\]\s*")
"""Claude Code's note that its user broke in; what they say stands behind it."""
_TEXT_PARTS: Final = frozenset({"text", "input_text", "output_text"})
_ANSWERING: Final = frozenset({"assistant", "tool", "function"})


class Began(StrEnum):
    """How a turn began, seen from the one before it."""

    NEXT = "next"  # the person said something more
    REWRITTEN = "rewritten"  # the person changed what they had said
    AGAIN = "again"  # the very same was asked for again


class Change(NamedTuple):
    """What became of a person's words between two requests.

    Args:
        began: None where nothing was added.
        start: place of the first new one.
    """

    began: Began | None
    start: int


def read_words(message: Mapping[str, Any]) -> str:
    """What a person said in a message of any dialect; "" where nobody did (system, tools, the agent's own context)."""
    if message.get("role") != "user":
        return ""
    parts = (_drop_documents(part) for part in _read_parts(message))
    said = [_INTERRUPTED.sub("", _WRAPPED.sub("", part).strip()) for part in parts]
    said = [part for part in said if part]
    if not said or is_observation(said[0]):  # what stands behind a result is a part of it
        return ""
    text = "\n".join([said[0], *(part for part in said[1:] if not is_observation(part))])
    last_line = text.rfind("\n") + 1
    if _RUNTIME.match(text, last_line):
        text = text[: max(0, last_line - 1)]
    return _open_envelope(text).strip()


def read_text(message: Mapping[str, Any]) -> str:
    """All text of a message, whoever said it."""
    return "\n".join(filter(None, _read_parts(message)))


def _read_parts(message: Mapping[str, Any]) -> list[str]:
    content = message.get("content")
    return [_read_part(part) for part in (content if isinstance(content, list) else [content])]


def _drop_documents(text: str) -> str:
    opened, closed = _DOCUMENTS
    if not text.startswith(opened):
        return text
    words = text.rpartition(closed)[2].strip()
    return words.removeprefix(_QUERY[0]).removesuffix(_QUERY[1])


def _open_envelope(text: str) -> str:
    found = _ENVELOPE.match(text)
    if found is None:
        return text
    is_named = found["who"] is not None and (found["who"] in _NAMELESS or found["who"] in found["about"])
    return text[found.end() if found["who"] is None or is_named else found.start("who") :]


def find_last_said(messages: Sequence[Any]) -> int | None:
    """Place of the last message in which a person said something; None where nobody did."""
    places = (place for place in range(len(messages) - 1, -1, -1) if isinstance(messages[place], Mapping))
    return next((place for place in places if read_words(messages[place])), None)


def write_behind(message: Mapping[str, Any], text: str) -> str | None:
    """A message's content with a text behind the person's words, and before what an agent put behind them.

    None where the words do not stand in it in one piece.
    """
    content, words = message.get("content"), read_words(message)
    if not isinstance(content, str) or not words:
        return None
    for found in islice(re.finditer(re.escape(words), content), MOST_PLACES):
        before, behind = content[: found.start()], content[found.end() :]
        if not read_words({**message, "content": before + behind}):  # without them nobody said anything
            return f"{before}{words}{text}{behind}"
    return None


def _read_part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and part.get("type", "text") in _TEXT_PARTS and isinstance(part.get("text"), str):
        return str(part["text"])
    return ""


def find_words(messages: Sequence[Any]) -> list[str]:
    """Everything a person said in a conversation, in order, without what was empty."""
    said = (read_words(message) for message in messages if isinstance(message, Mapping))
    return [words for words in said if words]


def find_own_words(messages: Sequence[Any]) -> int:
    """Place of the first of the person's words that no answer stands behind, but for the work on the last of them."""
    spoken = place = 0
    was_answered = False
    for message in messages:
        if isinstance(message, Mapping) and read_words(message):
            if was_answered:
                place, was_answered = spoken, False
            spoken += 1
        elif isinstance(message, Mapping) and message.get("role") == "assistant" and spoken:
            was_answered = True
    return place


def goes_on(messages: Sequence[Any]) -> bool:
    """Whether the agent has said or done something since the person's last words: the request is within a turn."""
    for message in reversed(messages):
        if not isinstance(message, Mapping):
            continue
        if read_words(message):
            return False
        if message.get("role") in _ANSWERING or holds_tool_result(message):
            return True
    return False


def holds_tool_result(message: Mapping[str, Any]) -> bool:
    """Whether a message says what a tool told, in any dialect."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return message.get("type") == "function_call_output" or any(
        isinstance(part, Mapping) and part.get("type") == "tool_result" for part in parts
    )


def digest_words(text: str) -> str:
    """A short name of what was said: 64 bits, blanks aside."""
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:16]


def find_change(before: Sequence[str], now: Sequence[str]) -> Change:
    """What a request's words add to those of the request before it.

    A conversation that lost its beginning (an agent shortens what it sends) goes on where the two overlap.

    Args:
        before, now: a person's words, or their digests, in order.
    """
    size = len(before)
    if not now or list(now) == list(before):
        return Change(None, len(now))
    if size < len(now) and list(now[:size]) == list(before):
        return Change(Began.NEXT, size)
    for kept in range(min(size, len(now)), 0, -1):
        if list(before[size - kept :]) == list(now[:kept]):
            return Change(None, kept) if kept == len(now) else Change(Began.NEXT, kept)
    same = next((place for place, pair in enumerate(zip(before, now, strict=False)) if pair[0] != pair[1]), len(now))
    return Change(Began.REWRITTEN, min(same, len(now) - 1))
