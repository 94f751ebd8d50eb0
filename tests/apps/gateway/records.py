"""Records as the edge hands them over, with answers of the stub upstream."""

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast

import orjson

from apps.gateway.record import RECORD_VERSION, Header, Record
from tests.apps.gateway.upstream import Answer, Plan

Json = dict[str, Any]
_COUNT = iter(range(1, 2**31))


def make_header(project: int, session: str = "s", **values: Any) -> Header:
    header: Json = {
        "v": RECORD_VERSION, "id": uuid.uuid4().hex, "at": 1_790_000_000.0 + next(_COUNT), "project": project,
        "agent": "alice", "token": "key", "session": session, "end_user": "", "is_done": False, "turn": "main",
        "task": None, "step": None, "worker": "desk", "model": "desk", "asked": "base", "served": "base",
        "adapter": "", "policy_version": 0, "provider": None, "kind": "engine", "upstream": "http://127.0.0.1:1",
        "api": "chat", "form": "chat", "is_stream": False, "status": 200, "is_truncated": False, "error": "",
        "latency_ms": 12.5, "first_ms": 3.25,
    }  # fmt: skip
    return cast(Header, header | values)


def answer_whole(body: Mapping[str, Any], **plan: Any) -> bytes:
    """What the stub upstream answers to a body."""
    return orjson.dumps(Answer(_ask(body), Plan(**plan), 1).write_whole())


def answer_stream(body: Mapping[str, Any], *, space: str = " ", newline: str = "\n", **plan: Any) -> bytes:
    answer = Answer(_ask(body) | {"stream_options": {"include_usage": True}}, Plan(**plan), 1)
    chunks = [json.dumps(answer.stamp(chunk, place)) for place, chunk in enumerate(answer.write_chunks())]
    return "".join(f"data:{space}{chunk}{newline * 2}" for chunk in [*chunks, "[DONE]"]).encode()


def make_record(
    project: int, messages: Sequence[Any], session: str = "s", *, body: Mapping[str, Any] | None = None, **plan: Any
) -> Record:
    """A request with these messages and its answer, with exact tokens; `plan` says what is answered."""
    header = {name: plan.pop(name) for name in list(plan) if name in Header.__annotations__}
    body = {"model": "desk", "messages": list(messages)} | dict(body or {})
    is_stream = bool(header.get("is_stream"))
    answer = answer_stream(body, **plan) if is_stream else answer_whole(body, **plan)
    return Record(make_header(project, session, **header), orjson.dumps(body), answer)


def _ask(body: Mapping[str, Any]) -> Json:
    """What the edge adds."""
    return {"return_token_ids": True, "logprobs": True if "messages" in body else 0} | dict(body) | {"model": "base"}
