"""Which conversation a request goes on from, told by what it repeats of it.

A thread is what was said and answered, in order, without what clients change on the way: system prompts, reminders,
white space, a model's thoughts, ids of tool calls, what tools told.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from tentalis.core.conversations.turns import holds_tool_result, read_text, read_words

SIMILAR_FROM: Final = 0.5
"""Words two system prompts share, or names two lists of tools do, from which on they are one agent's that changed."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_MOST_SYSTEM_CHARS: Final = 40_000
_ASCII_SPACE: Final = bytes(code for code in range(128) if chr(code).isspace())
_THOUGHT: Final = ("<think>", "</think>")


class Thread(NamedTuple):
    """Names of a conversation's states.

    Args:
        begun: up to the last answer it repeats; "" where it repeats none.
        ended: with the answer that was given to it; "" where none was.
    """

    begun: str
    ended: str


def name_thread(seed: str, messages: Sequence[Any], answer: Mapping[str, Any] | None) -> Thread:
    """Name what a request goes on from, and what a next one would.

    Args:
        seed: who talks; threads of others have other names.
    """
    state = blake2b(seed.encode("utf-8", "surrogatepass"), digest_size=16)
    begun = ""
    for kind, text in _spell(messages):
        state.update(f"{kind}{len(text)}:{text}".encode("utf-8", "surrogatepass"))
        begun = state.hexdigest() if kind == "a" else begun
    if answer is None:
        return Thread(begun, "")
    text = spell_answer(answer)
    state.update(f"a{len(text)}:{text}".encode("utf-8", "surrogatepass"))
    return Thread(begun, state.hexdigest())


def find_answers(messages: Sequence[Any]) -> list[str]:
    """The answers a request repeats, spelled as `spell_answer` does, in order."""
    return [text for kind, text in _spell(messages) if kind == "a"]


def spell_answer(message: Mapping[str, Any]) -> str:
    """An answer as its words and its tools' names with what they were given; clients write all else differently."""
    words = _squeeze(_drop_thoughts(read_text(message)))
    calls = message.get("tool_calls")
    return "\n".join([words, *(_spell_call(call) for call in calls if isinstance(call, Mapping))]) if calls else words


def _spell(messages: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """(w: a person's words, a: an answer, t: what tools told) and the text of it; one answer in several messages is
    one."""
    pieces: list[str] = []
    last = ""
    for message in messages:
        if not isinstance(message, Mapping):
            continue
        kind, text = _read(message)
        if kind == "a":
            pieces.append(text)
        elif kind:
            if pieces:
                yield "a", "\n".join(filter(None, pieces))
                pieces = []
            if (kind, last) != ("t", "t"):
                yield kind, text
        last = kind or last
    if pieces:
        yield "a", "\n".join(filter(None, pieces))


def _read(message: Mapping[str, Any]) -> tuple[str, str]:
    role = message.get("role")
    if role == "assistant":
        return "a", spell_answer(message)
    if role in {"tool", "function"} or holds_tool_result(message):
        return "t", ""
    words = _squeeze(read_words(message))
    return ("w", words) if words else ("", "")


def _squeeze(text: str) -> str:
    """Without white space. Of texts in ASCII, most long ones, at once: their words are not looked at one by one."""
    if text.isascii():
        return text.encode().translate(None, _ASCII_SPACE).decode()
    return "".join(text.split())


def _drop_thoughts(text: str) -> str:
    """Without what a model thought aloud between marks, by halves and in one pass."""
    opened, closed = _THOUGHT
    if opened not in text:
        return text
    kept = []
    for place, piece in enumerate(text.split(opened)):
        kept.append(piece if place == 0 else piece.partition(closed)[2])
    return "".join(kept)


def _spell_call(call: Mapping[str, Any]) -> str:
    given = call.get("function", call)
    given = given if isinstance(given, Mapping) else {}
    arguments = given.get("arguments", given.get("input", ""))
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return f"{given.get('name')} {arguments}"
    try:
        return f"{given.get('name')} {json.dumps(arguments, sort_keys=True, ensure_ascii=False)}"
    except (TypeError, ValueError, RecursionError):
        return f"{given.get('name')} ?"


class Head(NamedTuple):
    """Who is asked: an agent's system prompt and the names of its tools."""

    system: str
    tools: frozenset[str]

    def name(self) -> str:
        """A short name: 64 bits."""
        spelled = "\0".join([self.system, *sorted(self.tools)])
        return blake2b(spelled.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def read_head(messages: Sequence[Any], tools: Any) -> Head:
    """Of a request's leading system messages and its list of tools."""
    said: list[str] = []
    for message in messages:
        if not isinstance(message, Mapping) or message.get("role") not in {"system", "developer"}:
            break
        said.append(read_text(message))
    names = (_name_tool(tool) for tool in tools) if isinstance(tools, list) else ()
    return Head("\n".join(said)[:_MOST_SYSTEM_CHARS], frozenset(filter(None, names)))


def is_same_agent(first: Head, other: Head) -> bool:
    """Whether two requests are one agent's: a prompt that tells the time, or what is remembered, changes between them;
    another agent has other words and other tools."""
    if first == other:
        return True
    if first.tools and other.tools:
        if len(first.tools & other.tools) < SIMILAR_FROM * len(first.tools | other.tools):
            return False
    elif first.tools != other.tools:
        return first.system == other.system
    return _is_similar(first.system, other.system)


def _is_similar(one: str, other: str) -> bool:
    if one == other:
        return True
    first, second = (Counter(_WORD.findall(text.lower())) for text in (one, other))
    return 2 * (first & second).total() >= SIMILAR_FROM * 2 * max(first.total(), second.total(), 1)


def _name_tool(tool: Any) -> str:
    given = tool.get("function", tool) if isinstance(tool, Mapping) else {}
    return str(given.get("name", "")) if isinstance(given, Mapping) else ""
