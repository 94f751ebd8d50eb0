"""Anthropic's messages as OpenAI's chat completions and back, as far as our own calls go: text and tools, no streams.

The gateway's dialects translate everything else, for callers that are not us.

Source:
    https://platform.claude.com/docs/en/api/messages
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

_FINISH = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls"}
_KEPT = ("model", "temperature", "top_p", "metadata")


def to_anthropic(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request; what Anthropic does not know (n, seed, log-probs, response_format) is left out."""
    system = [str(message["content"]) for message in body["messages"] if message["role"] in {"system", "developer"}]
    wanted: dict[str, Any] = {name: body[name] for name in _KEPT if name in body}
    wanted["max_tokens"] = body.get("max_tokens") or body.get("max_completion_tokens")
    wanted["messages"] = _join_turns(body["messages"])
    if system:
        wanted["system"] = "\n\n".join(system)
    if stop := body.get("stop"):
        wanted["stop_sequences"] = [stop] if isinstance(stop, str) else list(stop)
    if tools := body.get("tools"):
        wanted["tools"] = [
            {
                "name": tool["function"]["name"],
                "description": tool["function"].get("description", ""),
                "input_schema": tool["function"].get("parameters") or {"type": "object"},
            }
            for tool in tools
        ]
    return wanted


def from_anthropic(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The answer as one of chat completions; `usage` as it came.

    Raises:
        KeyError, TypeError, AttributeError: it is no message.
    """
    blocks: Sequence[Mapping[str, Any]] = answer["content"]
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": json.dumps(block.get("input") or {})},
        }
        for block in blocks
        if block["type"] == "tool_use"
    ]
    message = {
        "role": "assistant",
        "content": "".join(block["text"] for block in blocks if block["type"] == "text"),
        "tool_calls": calls,
        "thinking": "".join(block.get("thinking", "") for block in blocks if block["type"] == "thinking"),
    }
    reason = answer.get("stop_reason") or ""
    choice = {"index": 0, "message": message, "finish_reason": _FINISH.get(reason, reason)}
    return {"model": answer.get("model"), "choices": [choice], "usage": answer.get("usage")}


def _join_turns(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Turns of user and assistant alone: a tool's result is the user's word, neighbours of one role are joined."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] in {"system", "developer"}:
            continue
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = _read_blocks(message)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return turns


def _read_blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())
    if message["role"] == "tool":
        return [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": text}]
    calls = [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["function"]["name"],
            "input": json.loads(call["function"]["arguments"] or "{}"),
        }
        for call in message.get("tool_calls") or ()
    ]
    return ([{"type": "text", "text": text}] if text else []) + calls
