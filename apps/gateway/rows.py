"""Rows of Exchange as COPY takes them."""

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson
from psycopg.types.json import Jsonb

from apps.gateway.capture import Captured
from apps.gateway.conversation_delta import Placed

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
TYPES = tuple(COLUMNS.values())
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


def fit(text: str, most_chars: int) -> str:
    """A text that Postgres can hold, in so many characters."""
    text = text[:most_chars]
    if "\x00" in text or not text.isascii():
        text = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    return text


def see_session(captured: Captured, thread: str = "") -> SessionSeen:
    """Args: thread: what its next request repeats, of one that nobody named."""
    header = captured.header
    seen_at = datetime.fromtimestamp(header["at"] + header["latency_ms"] / 1000, UTC)
    return SessionSeen(
        project_id=header["project"],
        key=fit(header["session"], SESSION_KEY_CHARS),
        worker_name=fit(header["worker"], 64),
        agent=fit(header["agent"], AGENT_CHARS),
        end_user=fit(header["end_user"], 200),
        began_at=datetime.fromtimestamp(header["at"], UTC),
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
        datetime.fromtimestamp(header["at"], UTC),
        uuid.UUID(header["id"]),
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
        Jsonb(placed.request, dump_json),
        Jsonb(header.get("sampling") or {}, dump_json),
        fit(header["adapter"], 200),
        header["policy_version"],
        Jsonb(placed.messages, dump_json),
        captured.text,
        captured.reasoning,
        Jsonb(captured.thinking_blocks, dump_json) if captured.thinking_blocks else None,
        Jsonb(captured.tool_calls, dump_json),
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


def dump_json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # whole numbers of more than 64 bits
        return json.dumps(value).encode()
