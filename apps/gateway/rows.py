"""Rows of Exchange as COPY takes them."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from apps.gateway.capture import Captured
from apps.gateway.conversation_delta import Placed
from apps.gateway.record import Header

COLUMNS: Mapping[str, str] = {
    "id": "int8", "created_at": "timestamptz", "public_id": "uuid", "choice": "int2", "parent_id": "int8",
    "shared_messages": "int4", "shared_tokens": "int4", "project_id": "int8", "session_id": "int8",
    "provider_id": "int8", "worker_name": "varchar", "agent": "varchar", "token": "varchar", "api": "varchar",
    "turn": "varchar", "task_id": "int8", "attempt_index": "int2", "step_index": "int4", "model": "varchar",
    "request": "jsonb", "sampling": "jsonb",
    "adapter_name": "varchar", "policy_version": "int4", "messages": "jsonb", "text": "text", "reasoning": "text",
    "thinking_blocks": "jsonb", "tool_calls": "jsonb", "finish_reason": "varchar", "prompt_token_ids": "bytea",
    "token_ids": "bytea", "logprobs": "bytea", "sampled": "bytea", "prompt_tokens": "int4",
    "completion_tokens": "int4", "cached_tokens": "int4", "cost_usd": "numeric", "latency_ms": "float8",
    "first_token_ms": "float8", "upstream": "varchar", "retry": "int2", "status": "int2", "is_streamed": "bool",
    "is_truncated": "bool", "is_mixed": "bool", "error": "text",
    "fallback_reason": "text",
}  # fmt: skip
"""Every column that is written with the row, with its type; a test compares them with the model."""
COPY = "COPY inference_exchange ({}) FROM STDIN (FORMAT BINARY)".format(", ".join(COLUMNS))
_WIRE = {"jsonb": "bytea", "timestamptz": "int8", "uuid": "bytea"}
"""Types whose binary form is made here, in a third of psycopg's time."""
TYPES = tuple(_WIRE.get(name, name) for name in COLUMNS.values())
_EPOCH_S, _LAST_S = 946_684_800, 253_402_300_800
"""2000-01-01, from which Postgres counts microseconds; and the year 10000, which Python does not know."""
_JSONB_VERSION = b"\x01"
SESSION_KEY_CHARS = 200
AGENT_CHARS = 160


class SessionSeen(NamedTuple):
    """What a batch knows of a session; texts fit their columns."""

    project_id: int
    key: str
    worker_name: str
    agent: str
    end_user: str
    began_at: datetime
    seen_at: datetime
    closed_at: datetime | None
    is_named: bool
    thread: str


@lru_cache(maxsize=512)
def fit(text: str, most_chars: int) -> str:
    """A text that Postgres can hold, in so many characters. Most are those of the record before."""
    text = text[:most_chars]
    if "\x00" in text or not text.isascii():
        text = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    return text


def read_end(header: Header) -> float:
    """When a record's answer ended, in seconds since the epoch."""
    return float(header["at"] + header["latency_ms"] / 1000)


def see_session(captured: Captured, thread: str = "", *, began_s: float) -> SessionSeen:
    """Args: captured: its latest. thread: what the next request repeats, if nobody named it. began_s: its first."""
    header = captured.header
    seen_at = datetime.fromtimestamp(read_end(header), UTC)
    return SessionSeen(
        project_id=header["project"],
        key=fit(header["session"], SESSION_KEY_CHARS),
        worker_name=fit(header["worker"], 64),
        agent=fit(header["agent"], AGENT_CHARS),
        end_user=fit(header["end_user"], 200),
        began_at=datetime.fromtimestamp(began_s, UTC),
        seen_at=seen_at,
        closed_at=seen_at if header["is_done"] else None,
        is_named=header.get("is_named", True),
        thread=thread,
    )


def make_row(
    captured: Captured, placed: Placed, *, pk: int, session_id: int, provider_id: int | None
) -> tuple[Any, ...]:
    """In the order of `COLUMNS`."""
    header = captured.header
    return (
        pk,
        _pack_time(header["at"]),
        _pack_uuid(header["id"]),
        captured.choice,
        placed.parent_id,
        placed.shared_messages,
        placed.shared_tokens,
        header["project"],
        session_id,
        provider_id,
        fit(header["worker"], 64),
        fit(header["agent"], AGENT_CHARS),
        fit(header["token"], 32),
        fit(header["api"], 16),
        fit(header["turn"], 8),
        header["task"],
        header.get("attempt"),
        header["step"],
        fit(header["asked"], 200),
        _dump_jsonb(placed.request),
        _dump_jsonb(header.get("sampling") or {}),
        fit(header["adapter"], 200),
        header["policy_version"],
        _dump_jsonb(placed.messages),
        captured.text,
        captured.reasoning,
        _dump_jsonb(captured.thinking_blocks) if captured.thinking_blocks else None,
        _dump_jsonb(captured.tool_calls),
        captured.finish_reason,
        placed.prompt_token_ids,
        captured.token_ids,
        captured.logprobs,
        captured.sampled,
        captured.prompt_tokens,
        captured.completion_tokens,
        captured.cached_tokens,
        captured.cost_usd,
        header["latency_ms"],
        header["first_ms"],
        fit(header["upstream"], 500),
        header.get("retry", 0),
        header["status"],
        header["is_stream"],
        captured.is_truncated,
        captured.is_mixed,
        fit(captured.error, 10_000),
        fit(header.get("fallback", ""), 2_000),
    )


def _pack_time(at: float) -> int:
    if not 0 <= at < _LAST_S:
        raise ValueError(f"wanted seconds since 1970, found {at!r}")
    return round((at - _EPOCH_S) * 1e6)


def _pack_uuid(digits: str) -> bytes:
    packed = bytes.fromhex(digits)
    if len(packed) != 16:  # which Postgres would take for an end of the connection
        raise ValueError(f"wanted a UUID's 32 hexadecimal digits, found {digits!r:.80}")
    return packed


def _dump_jsonb(value: Any) -> bytes:
    return _JSONB_VERSION + dump_json(value)


def dump_json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # whole numbers of more than 64 bits
        return json.dumps(value).encode()
