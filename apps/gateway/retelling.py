"""An answer that came whole though its events were asked for, told as those events. Pure."""

from collections.abc import Iterator
from typing import Any

import orjson

from apps.gateway.bounds import BeyondBoundsError, load_bounded
from apps.gateway.dialects import ErrorWords, read_error
from apps.gateway.dialects.errors import find_own_error
from apps.gateway.dialects.wire import DONE, dump_data

_WHOLE = (b"{", b"[", b"<")
"""How JSON and pages begin, and no event does."""


class NotAnAnswerError(Exception):
    """What came is no answer.

    Attributes:
        status: of the error in it; 502 where that tells none, or what came is none either.
        words: what it says; None where it is neither.
    """

    def __init__(self, message: str, *, status: int = 502, words: ErrorWords | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.words = words


def is_whole(beginning: bytes) -> bool:
    """Whether what a stream begins with is no event, but an answer, an error or a page."""
    return beginning.lstrip().startswith(_WHOLE)


def tell_as_events(raw: bytes) -> bytes:
    """The events of a chat or completions answer, with all that it tells.

    Raises:
        NoAnswerError: it is none.
    """
    try:
        answer = load_bounded(raw)
    except (orjson.JSONDecodeError, BeyondBoundsError):
        raise NotAnAnswerError(f"wanted events, found {raw[:80]!r}") from None
    is_object = isinstance(answer, dict)
    if is_object and (error := find_own_error(answer)):
        words = read_error(raw)
        raise NotAnAnswerError(words.message, status=_read_status(error), words=words)
    if not is_object or not isinstance(answer.get("choices"), list):
        raise NotAnAnswerError(f"wanted events, found {raw[:80]!r}")
    return b"".join(map(dump_data, _cut(answer))) + DONE


def _cut(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    head = {name: value for name, value in answer.items() if name not in {"choices", "usage"}}
    if head.get("object") == "chat.completion":
        head["object"] = "chat.completion.chunk"
    yield head | {"choices": [_open(choice) for choice in answer["choices"]]}
    if answer.get("usage") is not None:
        yield head | {"choices": [], "usage": answer["usage"]}


def _open(choice: Any) -> Any:
    """A choice as a piece of a stream: its message is a delta, whose calls are numbered."""
    if not isinstance(choice, dict) or not isinstance(message := choice.get("message"), dict):
        return choice
    if isinstance(calls := message.get("tool_calls"), list):
        numbered = [{"index": place} | call if isinstance(call, dict) else call for place, call in enumerate(calls)]
        message = message | {"tool_calls": numbered}
    return {name: value for name, value in choice.items() if name != "message"} | {"delta": message}


def _read_status(error: Any) -> int:
    code = error.get("code") if isinstance(error, dict) else None
    return code if type(code) is int and 400 <= code <= 599 else 502
