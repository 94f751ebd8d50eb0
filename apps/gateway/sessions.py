"""Which conversation a request belongs to, and what else its headers say about it."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from apps.gateway.tables import Caller

MOST_CHARS = 200
_HEADERS = ("X-Session-Id", "x-openclaw-session-key", "x-session-affinity", "session_id")
_COUNTER = re.compile(r":\d+$")
_IN_USER_ID = re.compile(r"_session_([0-9a-fA-F-]{36})$")
_TASK = re.compile(r"\d{1,18}")


class Place(NamedTuple):
    """Where a request stands.

    Args:
        session: its key; never empty. end_user: "" where nobody is named.
        turn: main or side. task, step: numbers, as the caller said.
        is_done: the session ends with this request.
        is_guessed: nothing named the session; its key was made from how the conversation began.
    """

    session: str
    end_user: str
    turn: str
    task: int | None
    step: int | None
    is_done: bool
    is_guessed: bool = False


def find_place(body: Mapping[str, Any], headers: Mapping[str, str], caller: Caller, *, in_path: str = "") -> Place:
    """Read a request's place, from what says it first: the path, the headers, the body, its beginning.

    Args:
        in_path: session of `/sessions/{id}/v1/…`.
    """
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    end_user = _text(body.get("user")) or _text(metadata.get("user_id")) or _text(body.get("safety_identifier"))
    turn = headers.get("X-Turn-Type", "").lower()
    session = _shorten(in_path or _find_session(body, metadata, headers, end_user))
    return Place(
        session=session or _fingerprint(body, caller),
        end_user=_shorten(end_user),
        turn=turn if turn in {"main", "side"} else ("main" if caller.is_agent else "side"),
        task=_number(headers.get("X-Tentalis-Task")),
        step=_number(headers.get("X-Tentalis-Step")),
        is_done=headers.get("X-Session-Done", "").lower() in {"1", "true", "yes"},
        is_guessed=not session,
    )


def _find_session(
    body: Mapping[str, Any], metadata: Mapping[str, Any], headers: Mapping[str, str], end_user: str
) -> str:
    for name in _HEADERS:
        if found := headers.get(name):
            return found
    if found := _text(body.get("session_id")):
        return found
    if found := _text(body.get("prompt_cache_key")):
        return _COUNTER.sub("", found) or found
    if found := _text(metadata.get("session_id")):
        return found
    if match := _IN_USER_ID.search(end_user):  # Claude Code names user, account and session in one
        return match[1]
    return end_user


def _fingerprint(body: Mapping[str, Any], caller: Caller) -> str:
    """Of the caller and how the conversation began: its later turns have the same, other conversations do not."""
    beginning = [_spell(body.get("system")), _text(body.get("instructions"))]
    given = body.get("messages")
    given = body.get("input") if given is None else given
    for message in given if isinstance(given, list) else ():
        if isinstance(message, dict):
            beginning.append(_spell(message.get("content")))
            if message.get("role") == "user":
                break
    if not isinstance(given, list):
        beginning += [_text(given), str(body.get("prompt", ""))[:10_000]]
    digest = hashlib.sha256("\0".join([caller.token, *beginning]).encode("utf-8", "surrogatepass"))
    return f"fp-{digest.hexdigest()[:32]}"


def _spell(content: Any) -> str:
    """A message's or a system's content, as a text or as blocks; where the cache's marks stand changes from turn to
    turn."""
    if not isinstance(content, list):
        return "" if content is None else str(content)
    return str([_leave_out_marks(block) for block in content])


def _leave_out_marks(block: Any) -> Any:
    if isinstance(block, dict) and "cache_control" in block:
        return {name: value for name, value in block.items() if name != "cache_control"}
    return block


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _shorten(text: str) -> str:
    """What a column takes: no NUL, no half characters, and of what is too long a beginning with its own end."""
    clean = text.encode("utf-8", "replace").decode().replace("\0", "").strip()
    if len(clean) <= MOST_CHARS:
        return clean
    return f"{clean[:150]}-{hashlib.sha256(clean.encode()).hexdigest()[:32]}"


def _number(text: str | None) -> int | None:
    return int(text) if text and _TASK.fullmatch(text) else None
