"""Conversations by themselves: ShareGPT's `conversations`, and `messages` in the chat API's form, one a row. Nobody
graded them."""

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
    opening, said = split_conversation(read(require(found, dict, "row")))
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
    messages = (
        [{"role": "system", "content": found["system"]}]
        if isinstance(found.get("system"), str) and found["system"]
        else []
    )
    for number, turn in enumerate(turns):
        name = f"conversations[{number}]"
        who = require(require(turn, dict, name).get("from"), str, f"{name}.from")
        if who not in WHO:
            raise RunLogError(f"{name}.from: wanted one of {', '.join(WHO)}, found {who!r:.40}")
        messages.append({"role": WHO[who], "content": require(turn.get("value"), str, f"{name}.value")})
    return messages
