"""Hints: what a manager's words teach, asked out of a model, read back, and put into a conversation for the teacher."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tentalis.core.conversations.turns import find_last_said, write_behind
from tentalis.core.scoring.quoting import QUOTING_RULE, Message, cap_text, clean_text, drop_thoughts, quote_blocks

MAX_HINT_CHARS = 600
_PROMPT_CHARS = 8_000
_ANSWER_CHARS = 8_000
_FEEDBACK_CHARS = 8_000
_HINT_TITLE = "Hint from the manager:"

_SYSTEM = (
    "A manager reviewed an agent's work. Turn the manager's words into one hint that would have led the agent to "
    "better work on this task and on tasks like it: one to three short imperative sentences that name the rule, not "
    "the final answer. Write [HINT]your hint[/HINT]. When the words teach nothing the agent could do differently "
    "(praise alone, off topic, unclear), write [NO_HINT]why[/NO_HINT] instead; that is a good answer, a made-up "
    "hint is not."
)
_MARK = re.compile(r"\[(?P<slash>/?)(?P<no>NO_)?HINT\]", re.IGNORECASE)


class HintError(ValueError):
    """A hint cannot be used as asked; the message says what was wanted and what was found."""


@dataclass(frozen=True)
class Hint:
    """What the worker should have been told: 1 to MAX_HINT_CHARS characters."""

    text: str


@dataclass(frozen=True)
class NoHint:
    """There is nothing to teach, or the answer could not be read; `abstained` tells the one from the other."""

    reason: str
    abstained: bool


def build_hint_messages(
    *, prompt: str, answer: str | None, feedback: str, step_comments: Mapping[int, str] | None = None
) -> list[Message]:
    """The messages that ask a model for the hint in a manager's feedback.

    Args:
        step_comments: the manager's words on single steps, by step index from 0.
    Raises:
        HintError: the manager wrote nothing at all.
    """
    words = [feedback.strip()] if feedback.strip() else []
    words += [
        f"On step {index}: {text.strip()}" for index, text in sorted((step_comments or {}).items()) if text.strip()
    ]
    if not words:
        raise HintError("feedback: wanted the manager's words on the whole or a step, found none")
    blocks = {
        "TASK": cap_text(prompt, _PROMPT_CHARS),
        "WORK": cap_text(answer if answer is not None else "(no answer was given)", _ANSWER_CHARS),
        "FEEDBACK": cap_text("\n".join(words), _FEEDBACK_CHARS),
    }
    return [
        Message(role="system", content=f"{_SYSTEM}\n\n{QUOTING_RULE}"),
        Message(role="user", content=f"{quote_blocks(blocks)}\n\nWrite the hint now, or [NO_HINT]."),
    ]


def parse_hint(text: str) -> Hint | NoHint:
    """Read a model's answer; never raises. The last closed [HINT] counts, for models think aloud before it."""
    spoken = drop_thoughts(text)
    marks = list(_MARK.finditer(spoken))
    closed = [(left, right) for left, right in pairwise(marks) if not left["slash"] and right["slash"]]
    if not closed:
        abstained = any(mark["no"] for mark in marks)
        return NoHint("the model abstained without a reason" if abstained else "no closed [HINT]", abstained=abstained)
    left, right = closed[-1]
    if bool(left["no"]) != bool(right["no"]):
        return NoHint(f"{left[0]} is closed by {right[0]}", abstained=False)
    hint = clean_text(spoken[left.end() : right.start()].strip())
    if left["no"]:
        return NoHint(cap_text(hint, MAX_HINT_CHARS) or "the model abstained without a reason", abstained=True)
    if not hint:
        return NoHint("the hint is empty", abstained=False)
    if len(hint) > MAX_HINT_CHARS:
        return NoHint(f"the hint has {len(hint)} characters, wanted at most {MAX_HINT_CHARS}", abstained=False)
    return Hint(hint)


_PARTS = re.compile(r"(?<=[.;!])\s{1,40}|,\s{1,40}(?:and\s{1,40})?|\n{1,40}")


def list_candidates(hint: str, others: Sequence[str] = ()) -> list[str]:
    """Hints a teacher may choose from: the hint, others given for the same work, and the hint with its end left out.

    What is left of a hint of several parts (sentences, or what commas part) still says its beginning; a teacher who is
    told less may stay nearer to what the policy would say.
    """
    parts = [part.group() for part in re.finditer(r".+?(?:" + _PARTS.pattern + r"|$)", hint.strip(), re.DOTALL)]
    shorter = ["".join(parts[:size]).strip().rstrip(",;") for size in range(len(parts) - 1, 0, -1)]
    return list(dict.fromkeys(text for text in (hint, *others, *shorter) if text.strip()))


def hinted_prompt(text: str, hints: Sequence[str]) -> str:
    """A task with a rule book's hints behind it, as models of a world with a grammar read them; or as it is."""
    return f"{text} Hint: {', '.join(hints)}." if hints else text


def write_behind_task(messages: Sequence[Mapping[str, Any]], text: str, *, noun: str) -> list[dict[str, Any]]:
    """The conversation with a text right behind the task, the person's last words; the given messages stay as they are.

    Args:
        noun: what a task is called.
    Raises:
        ValueError: there is no task, or it is in parts.
    """
    copies = [dict(message) for message in messages]
    said = find_last_said(copies)
    if said is None:
        raise ValueError(f"wanted a {noun} among the messages, found none")
    content = write_behind(copies[said], text)
    if content is None:
        raise ValueError(f"wanted the {noun} as one text, found it in parts")
    copies[said]["content"] = content
    return copies


def hinted_messages(messages: Sequence[Mapping[str, Any]], hint: str) -> list[dict[str, Any]]:
    """The conversation with the hint after the person's last words; the given messages stay as they are.

    What an agent wrote around those words, or in messages of its own behind them, stays where it is. A message whose
    content is a list of parts gets one more text part.

    Raises:
        HintError: the hint is blank, there is no user message, or its content is neither text nor parts.
    """
    if not hint.strip():
        raise HintError("hint: wanted words, found none")
    copies = [dict(message) for message in messages]
    users = [place for place, message in enumerate(copies) if message.get("role") == "user"]
    said = find_last_said(copies)
    if users:
        message = copies[users[-1] if said is None else said]
        message["content"] = _append_hint(message, hint.strip())
        return copies
    roles = [message.get("role") for message in copies]
    raise HintError(f"messages: wanted one of role 'user' to put the hint in, found roles {roles}")


def _append_hint(message: Mapping[str, Any], hint: str) -> str | list[Any]:
    block, content = f"---\n{_HINT_TITLE}\n{hint}\n---", message.get("content")
    if isinstance(content, str):
        return write_behind(message, f"\n\n{block}") or f"{content}\n\n{block}"
    if isinstance(content, Sequence) and not isinstance(content, bytes):
        return [*content, {"type": "text", "text": f"\n\n{block}"}]
    raise HintError(f"content of the last user message: wanted text or parts, found {type(content).__name__}")
