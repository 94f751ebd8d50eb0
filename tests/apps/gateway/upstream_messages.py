"""What the stub upstream says in Anthropic's dialect."""

import json
from collections.abc import Iterator
from typing import Any, Protocol

from aiohttp import web

Json = dict[str, Any]


class Plan(Protocol):
    @property
    def reply(self) -> str: ...

    @property
    def reasoning(self) -> str: ...


class Seer(Protocol):
    """The stub's server."""

    @property
    def plan(self) -> Plan: ...

    async def see(self, request: web.Request) -> Json: ...


def add_messages(app: web.Application, server: Seer) -> None:
    """`/v1/messages`: signed thoughts, then the reply; and `/v1/messages/count_tokens`."""

    async def answer(request: web.Request) -> web.Response:
        body = await server.see(request)
        message = write_message(body, reply=server.plan.reply, reasoning=server.plan.reasoning)
        if not body.get("stream"):
            return web.json_response(message)
        events = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in cut_message(message)]
        return web.Response(body="".join(events).encode(), content_type="text/event-stream")

    async def count(request: web.Request) -> web.Response:
        body = await server.see(request)
        return web.json_response({"input_tokens": len(json.dumps(body["messages"]))})

    app.add_routes([web.post("/v1/messages", answer), web.post("/v1/messages/count_tokens", count)])


def write_message(body: Json, *, reply: str, reasoning: str) -> Json:
    """A Message of Anthropic's dialect."""
    content: list[Json] = [{"type": "text", "text": reply or "hi"}]
    if reasoning:
        content.insert(0, {"type": "thinking", "thinking": reasoning, "signature": "c2lnbmVk"})
    usage = {"input_tokens": 3, "output_tokens": 2}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"]}
    return head | {"content": content, "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}


def cut_message(message: Json) -> Iterator[Json]:
    """The events of a streamed Message."""
    yield {"type": "message_start", "message": message | {"content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        kind = block["type"]
        yield {"type": "content_block_start", "index": index, "content_block": {"type": kind, kind: ""}}
        for piece in block[kind].split(" "):
            yield {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", kind: piece}}
        if "signature" in block:
            signed = {"type": "signature_delta", "signature": block["signature"]}
            yield {"type": "content_block_delta", "index": index, "delta": signed}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": message["usage"]}
    yield {"type": "message_stop"}
