"""Conversations by themselves: ShareGPT's `conversations`, and `messages` in the chat API's form, one a row. Nobody
graded them."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from tentalis.core.run_logs.logged import (
    LoggedRun,
    LoggedTry,
    RunLogError,
    collect_tries,
    find_answer,
    read_messages,
    require,
    split_conversation,
)

UNGRADED: Final = "its file has no grade of it"
WHO: Final = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "system": "system",
    "tool": "tool",
    "observation": "tool",
    "function_response": "tool",
}
"""Who spoke, in ShareGPT's words and their descendants', and in the chat API's."""
CALL: Final = "function_call"
"""Who spoke where a model calls: a JSON object, or several in a list, with name and arguments."""


def read_conversations(rows: Sequence[Any], *, form: str) -> LoggedRun:
    """A run of conversations: the last answer of each is a try at what was said before it.

    Args:
        form: `sharegpt` or `messages`.
    Raises:
        RunLogError: saying what was wanted, by row.
    """
    read = _read_sharegpt if form == "sharegpt" else _read_messages
    tries = collect_tries(
        (f"row {n}", partial(_read_row, one, read, f"row {n}")) for n, one in enumerate(rows, start=1)
    )
    models = {one.get("model") for one in rows if isinstance(one, dict)} - {None, ""}
    return LoggedRun(form=form, task="", model=str(models.pop()) if len(models) == 1 else "", tries=tries)


def _read_row(found: Any, read: Any, place: str) -> LoggedTry | None:
    messages = read(require(found, dict, "row"))
    if isinstance(system := found.get("system"), str) and system:
        messages = [{"role": "system", "content": system}, *messages]
    opening, said = split_conversation(messages)
    if not (answer := find_answer(said)):
        raise RunLogError("wanted an answer behind the last words of a person, found none")
    return LoggedTry(
        place=place,
        opening=opening,
        said=said,
        answer=answer,
        reference=found.get("reference", found.get("ideal")),
        cause=UNGRADED,
        category=found["category"] if isinstance(found.get("category"), str) else "",
    )


def _read_messages(found: dict[str, Any]) -> list[dict[str, Any]]:
    return read_messages(found.get("messages"))


def _read_sharegpt(found: dict[str, Any]) -> list[dict[str, Any]]:
    turns = require(found.get("conversations"), list, "conversations")
    messages: list[dict[str, Any]] = []
    waiting: list[str] = []
    for number, turn in enumerate(turns):
        name = f"conversations[{number}]"
        who = require(require(turn, dict, name).get("from"), str, f"{name}.from")
        if who not in {*WHO, CALL}:
            raise RunLogError(f"{name}.from: wanted one of {', '.join([*WHO, CALL])}, found {who!r:.40}")
        value = require(turn.get("value"), str, f"{name}.value")
        calls = _read_calls(value, number) if who == CALL else []
        message: dict[str, Any] = {"role": WHO.get(who, "assistant"), "content": "" if calls else value}
        if calls:
            message["tool_calls"], waiting = calls, [one["id"] for one in calls]
        elif message["role"] == "tool" and waiting:
            message["tool_call_id"] = waiting.pop(0)
        messages.append(message)
    return read_messages(messages, "conversations")


def _read_calls(value: str, place: int) -> list[dict[str, Any]]:
    """The calls of a turn; [] where it says them in another form, which is kept as words."""
    try:
        told = json.loads(value)
    except (ValueError, RecursionError):
        return []
    calls = told if isinstance(told, list) else [told]
    if not all(isinstance(one, dict) and isinstance(one.get("name"), str) for one in calls):
        return []
    return [
        {"id": f"call_{place}_{n}", "function": {"name": one["name"], "arguments": one.get("arguments")}}
        for n, one in enumerate(calls)
    ]
