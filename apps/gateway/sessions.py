"""Which conversation a request belongs to, and what else its headers say about it."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from apps.gateway.pins import Pin
from apps.gateway.tables import Caller

MOST_CHARS = 200
_HEADERS = (
    "X-Session-Id", "x-openclaw-session-key", "x-session-affinity", "session_id", "X-Claude-Code-Session-Id",
    "X-OpenWebUI-Chat-Id", "session-id",
)  # fmt: skip
"""The last but ours: Claude Code's, Open WebUI's where it forwards who asks, Codex's."""
_SUBAGENT = "x-claude-code-agent-id"
_RETRY = "x-stainless-retry-count"
"""Of the libraries of OpenAI and Anthropic."""
_COUNTER = re.compile(r":\d+$")
_IN_USER_ID = re.compile(r"_session_([0-9a-fA-F-]{36})$")
_OF_ONE_REQUEST = ("request", "trace", "span", "time", "date", "run", "message", "generation", "parent", "step")
"""Parts of metadata's names whose values change from request to request."""
MOST_RETRIES = 32_767
TASK, ATTEMPT, STEP = "X-Tentalis-Task", "X-Tentalis-Attempt", "X-Tentalis-Step"
MOST_STEPS = 2**31
"""What a column takes."""
_TASK = re.compile(r"\d{1,18}")
_TRY = re.compile(r"tentalis:(\d{1,18}):[0-9a-f]{16}")
"""The session of a try whose agent cannot be had to send headers (`apps.workers.agents.flows`)."""


class Place(NamedTuple):
    """Where a request stands.

    Args:
        session: its key; never empty. end_user: "" where nobody is named.
        turn: main or side. task, attempt, step: numbers, as the caller said; one that is none is -1.
        is_done: the session ends with this request.
        is_guessed: nothing named the session; its key was made from how the conversation began, and is completed
            when the answer is stored (`apps.gateway.batches`).
        is_named: the caller named the conversation, and not only its user.
        pin: what answers it, where it is of a try that keeps to one model.
        retry: how often the caller's library had sent this before.
    """

    session: str
    end_user: str
    turn: str
    task: int | None
    step: int | None
    is_done: bool
    is_guessed: bool = False
    is_named: bool = True
    retry: int = 0
    attempt: int | None = None
    pin: Pin | None = None


class SessionHeaders(NamedTuple):
    """What a request's headers say of its place; `turn` is "" where they do not."""

    session: str
    turn: str
    is_subagents: bool
    task: int | None
    attempt: int | None
    step: int | None
    is_done: bool
    retry: int


def read_session_headers(headers: Mapping[str, str]) -> SessionHeaders:
    turn = headers.get("X-Turn-Type", "").lower()
    return SessionHeaders(
        session=next((found for name in _HEADERS if (found := headers.get(name))), ""),
        turn=turn if turn in {"main", "side"} else "",
        is_subagents=bool(headers.get(_SUBAGENT)),
        task=_number(headers[TASK], unreadable=-1) if TASK in headers else None,
        attempt=_number(headers[ATTEMPT], unreadable=-1) if ATTEMPT in headers else None,
        step=_number(headers[STEP], unreadable=-1) if STEP in headers else None,
        is_done=headers.get("X-Session-Done", "").lower() in {"1", "true", "yes"},
        retry=min(_number(headers.get(_RETRY)) or 0, MOST_RETRIES),
    )


def find_place(body: Mapping[str, Any], headers: SessionHeaders, caller: Caller, *, in_path: str = "") -> Place:
    """Read a request's place, from what says it first: the path, the headers, the body, its beginning.

    Args:
        in_path: session of `/sessions/{id}/v1/…`.
    """
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    named = _text(body.get("user")) or _text(metadata.get("user_id")) or _text(body.get("safety_identifier"))
    end_user, conversation = _read_user(named) if named else ("", "")
    if headers.task is None and (match := _TRY.fullmatch(in_path)):
        headers = headers._replace(task=int(match[1]))
    is_agents = caller.is_agent or headers.task is not None  # who does a task may have a person's token
    is_main = is_agents and not headers.is_subagents  # what a sub-agent is told, another agent says
    conversation = _shorten(in_path or headers.session or _find_session(body, metadata) or conversation)
    end_user = _shorten(end_user)
    session = conversation or end_user
    return Place(
        session=session or make_fingerprint(body, metadata, caller),
        end_user=end_user,
        turn=headers.turn or ("main" if is_main else "side"),
        task=headers.task,
        attempt=headers.attempt,
        step=headers.step,
        is_done=headers.is_done,
        is_guessed=not session,
        is_named=bool(conversation),
        retry=headers.retry,
    )


def _read_user(named: str) -> tuple[str, str]:
    """(who talks, their conversation) of what a request calls its user: Claude Code names account, machine and session
    in one, today as JSON."""
    if match := _IN_USER_ID.search(named):
        return named[: match.start()], match[1]
    if not named.startswith("{"):
        return named, ""
    try:
        said = json.loads(named[:4_000])
    except (ValueError, RecursionError):
        return named, ""
    if not isinstance(said, dict) or not _text(said.get("session_id")):
        return named, ""
    return _text(said.get("account_uuid")) or _text(said.get("device_id")), _text(said["session_id"])


def _find_session(body: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    if found := _text(body.get("session_id")):
        return found
    if found := _text(body.get("prompt_cache_key")):
        return _COUNTER.sub("", found) or found
    return _text(metadata.get("session_id"))


def make_fingerprint(body: Mapping[str, Any], metadata: Mapping[str, Any], caller: Caller) -> str:
    """Of the caller, whom it speaks for and how the conversation began: its later turns have the same."""
    about = {
        name: value
        for name, value in metadata.items()
        if isinstance(value, str) and not any(part in name.lower() for part in _OF_ONE_REQUEST)
    }
    beginning = [json.dumps(about, sort_keys=True), _spell(body.get("system")), _text(body.get("instructions"))]
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
    if not text:
        return ""
    clean = text.encode("utf-8", "replace").decode().replace("\0", "").strip()
    if len(clean) <= MOST_CHARS:
        return clean
    return f"{clean[:150]}-{hashlib.sha256(clean.encode()).hexdigest()[:32]}"


def _number(text: str | None, *, unreadable: int | None = None) -> int | None:
    return int(text) if text and _TASK.fullmatch(text) else unreadable
