"""A run as it stands in another tool's file, whatever the tool."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

MOST_TRIES: Final = 20_000
MOST_FAULTS: Final = 20
"""That are told of a file; where there are more, their number is."""
RIGHT: Final = {"c": 1.0, "correct": 1.0, "yes": 1.0, "true": 1.0, "p": 0.5, "partial": 0.5, "i": 0.0, "incorrect": 0.0,
                "n": 0.0, "noanswer": 0.0, "no": 0.0, "false": 0.0}  # fmt: skip
"""Grades in letters and words, as inspect_ai counts them."""


_READ_ELSEWHERE: Final = frozenset({"reasoning", "thinking", "tool_use", "tool_result"})
"""Parts of a message that are no words of it."""


class RunLogError(ValueError):
    """What was wanted of a file, and what was found.

    Args:
        faults: place in the file -> what is wrong there; {}: with all of it.
    """

    def __init__(self, message: str, faults: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.faults = dict(faults or {})


@dataclass(frozen=True, kw_only=True)
class LoggedTry:
    """One try at a task.

    Args:
        place: where it stands in the file, in words.
        opening: what its model was asked with, in the chat API's form, the last of a person; said: what came of that.
        reference: what is right, where the file says so; None: it does not.
        score: in [0, 1]; None: there is none, for `cause`. Whether it could not be asked or graded: `is_lost`.
        graded_by: in the tool's words.
        prompt_tokens, completion_tokens, seconds, cost_usd: None where the file does not say.
    """

    place: str
    opening: Sequence[Mapping[str, Any]]
    said: Sequence[Mapping[str, Any]] = ()
    answer: str = ""
    reference: Any = None
    score: float | None = None
    graded_by: str = ""
    cause: str = ""
    is_lost: bool = False
    category: str = ""
    finish_reason: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, kw_only=True)
class LoggedRun:
    """A run.

    Args:
        form: whose file it is; task, model: names, as the file has them; "" where it has none.
        made_at: in the file's words; settings: how it was made, of what the file says.
    """

    form: str
    task: str
    model: str
    tries: Sequence[LoggedTry]
    made_at: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


def collect_tries(made: Iterable[tuple[str, Any]]) -> list[LoggedTry]:
    """The tries of (place, a function that reads one or gives None); all faults are told together.

    Raises:
        RunLogError: something is not what is wanted, or there is none, or too many.
    """
    tries: list[LoggedTry] = []
    faults: dict[str, str] = {}
    for place, read in made:
        try:
            found = read()
        except RunLogError as error:
            faults[place] = str(error)
            continue
        if found is not None:
            tries.append(found)
        if len(tries) > MOST_TRIES:
            raise RunLogError(f"wanted at most {MOST_TRIES:,} tries, found more")
    if faults:
        told = dict(list(faults.items())[:MOST_FAULTS])
        if len(faults) > MOST_FAULTS:
            told["further"] = f"{len(faults) - MOST_FAULTS} more are wrong"
        raise RunLogError("; ".join(f"{place}: {words}" for place, words in told.items()), told)
    if not tries:
        raise RunLogError("wanted tries, found none")
    return tries


def read_score(value: Any, *, name: str) -> float | None:
    """A grade as a number in [0, 1]; None of none (null, NaN).

    Raises:
        RunLogError: it is none of these.
    """
    if value is None:
        return None
    if isinstance(value, str):
        known = RIGHT.get(value.strip().lower())
        if known is not None:
            return known
        try:
            value = float(value)
        except ValueError:
            raise RunLogError(f"wanted a grade of {name} in [0, 1], found {value!r:.60}") from None
    if not isinstance(value, int | float):
        raise RunLogError(f"wanted a grade of {name} in [0, 1], found {type(value).__name__}")
    if math.isnan(value):
        return None
    if not 0 <= value <= 1:
        raise RunLogError(f"wanted a grade of {name} in [0, 1], found {value}: choose another by its name")
    return float(value)


def require(value: Any, kind: type | tuple[type, ...], name: str) -> Any:
    """A value of the kind. Raises RunLogError naming the field."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind in (int, float, (int, float))):
        wanted = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
        raise RunLogError(f"{name}: wanted {wanted}, found {type(value).__name__}")
    return value


def read_messages(messages: Any, name: str = "messages") -> list[dict[str, Any]]:
    """Messages in the chat API's form, whichever dialect they are in. Raises RunLogError."""
    return [
        message
        for n, one in enumerate(require(messages, list, name))
        for message in _read_message(require(one, dict, f"{name}[{n}]"), f"{name}[{n}]")
    ]


def _read_message(found: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """One message, behind what tools told where that stands in it as parts, as Anthropic's API has it."""
    role, content = require(found.get("role"), str, f"{name}.role"), found.get("content")
    told = [
        {
            "role": "tool",
            "content": read_content(one.get("content"), f"{name}.content"),
            "tool_call_id": str(one.get("tool_use_id") or ""),
        }
        for one in _list_parts(content, "tool_result")
    ]
    used = [
        {**one, "function": one.get("name"), "arguments": one.get("input", one.get("arguments"))}
        for one in _list_parts(content, "tool_use")
    ]
    message: dict[str, Any] = {"role": role, "content": read_content(content, f"{name}.content")}
    if calls := found.get("tool_calls") or used:
        message["tool_calls"] = [
            _read_call(one, f"{name}.tool_calls") for one in require(calls, list, f"{name}.tool_calls")
        ]
    if role == "tool" and (call := found.get("tool_call_id")):
        message["tool_call_id"] = str(call)
        if failed := found.get("error"):
            words = failed.get("message") if isinstance(failed, dict) else failed
            message["content"] = message["content"] or str(words)
    return told if told and not message["content"] else [*told, message]


def _list_parts(content: Any, kind: str) -> list[dict[str, Any]]:
    return (
        [one for one in content if isinstance(one, dict) and one.get("type") == kind]
        if isinstance(content, list)
        else []
    )


def read_content(content: Any, name: str = "content") -> str:
    """The text of a message: of parts those that are text, the others by their kind in brackets."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = []
    for part in require(content, (list, str), name):
        if isinstance(part, str):
            parts.append(part)
            continue
        kind = require(part, dict, name).get("type")
        if kind in ("text", "input_text", "output_text"):
            parts.append(str(part.get("text", "")))
        elif kind not in _READ_ELSEWHERE:
            parts.append(f"[{kind}]")
    return "\n".join(part for part in parts if part)


def _read_call(found: Any, name: str) -> dict[str, Any]:
    inner = require(found, dict, name).get("function")
    if isinstance(inner, dict):
        called, told = inner.get("name"), inner.get("arguments")
    else:
        called, told = inner, found.get("arguments")
    text = told if isinstance(told, str) else json.dumps({} if told is None else told, ensure_ascii=False)
    told_name = require(called, str, f"{name}.function")
    return {"id": str(found.get("id") or ""), "type": "function", "function": {"name": told_name, "arguments": text}}


def split_conversation(messages: Sequence[Mapping[str, Any]]) -> tuple[list[Any], list[Any]]:
    """What a conversation's last answer was asked with, through the last words of a person, and what came of it.

    Raises:
        RunLogError: nobody asked anything.
    """
    last = next(
        (n for n in range(len(messages) - 1, -1, -1) if messages[n]["role"] == "user" and messages[n]["content"]), None
    )
    if last is None:
        raise RunLogError(f"wanted a message of a person, found {[one['role'] for one in messages]!r:.80}")
    return list(messages[: last + 1]), list(messages[last + 1 :])


def find_answer(messages: Sequence[Mapping[str, Any]]) -> str:
    """The last words of a model; "" for none."""
    return next((one["content"] for one in reversed(messages) if one["role"] == "assistant" and one["content"]), "")
