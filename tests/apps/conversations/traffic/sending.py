"""Requests as clients write them, and the answers that come back."""

import json
import random
import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"


@dataclass(frozen=True)
class Send:
    """A request, and what the model is to answer to it.

    Args:
        at_s: when it is sent, since the conversation began; the answer takes a second.
        calls: (tool, arguments) that the model asks for. status: of the answer.
    """

    at_s: float
    body: Json
    reply: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    path: str = CHAT
    status: int = 200


@dataclass(frozen=True)
class Answer:
    """What came back. `exchange`: its public id; `message`: as the client repeats it."""

    exchange: str
    message: Json


Case = Generator[Send, Answer, list[str]]
"""Its end: public ids of the exchanges that a person corrected."""
Kinds = Mapping[str, Callable[[random.Random], Case]]


class Clock:
    """A conversation's time, at the pace of who holds it.

    Args:
        step_s: between one request and the next, give or take a half.
    """

    def __init__(self, dice: random.Random, step_s: float) -> None:
        self._dice, self._step_s = dice, step_s
        self.now_s = 0.0

    def wait(self, step_s: float | None = None) -> float:
        """Let a step go by. Returns the time after it."""
        self.now_s += (self._step_s if step_s is None else step_s) * self._dice.uniform(0.5, 1.5)
        return self.now_s


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def system(text: str) -> Json:
    return {"role": "system", "content": text}


def tool_of(answer: Answer, text: str) -> list[Json]:
    calls = answer.message.get("tool_calls", [])
    return [{"role": "tool", "tool_call_id": call["id"], "content": text} for call in calls]


def results_of(answer: Answer, text: str) -> Json:
    """The same in Anthropic's dialect."""
    used = [part for part in answer.message["content"] if part["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": one["id"], "content": text} for one in used]
    return {"role": "user", "content": results}


def ask(*messages: Json, tools: tuple[str, ...] = (), **fields: Any) -> Json:
    made = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
        for name in tools
    ]
    return {"messages": list(messages), **({"tools": made} if made else {}), **fields}


def name(dice: random.Random) -> str:
    return str(uuid.UUID(int=dice.getrandbits(128)))


def name_session(dice: random.Random) -> dict[str, str]:
    """One of the headers by which clients name a session."""
    header = dice.choice(("X-Session-Id", "x-session-affinity", "X-OpenWebUI-Chat-Id"))
    return {header: dice.choice(("{}", "ses_{}", "app-{}", "agent:main:{}")).format(name(dice))}


def claude_headers(dice: random.Random) -> tuple[Json, dict[str, str]]:
    session = name(dice)
    who = {"device_id": f"{dice.getrandbits(128):x}", "account_uuid": name(dice), "session_id": session}
    version = f"2.1.{dice.randrange(100, 340)}"
    headers = {"User-Agent": f"claude-cli/{version} (external, cli)", "X-Claude-Code-Session-Id": session}
    return {"user_id": json.dumps(who)}, headers


def code_body(metadata: Json, *messages: Json, prompt: str, tools: tuple[str, ...] = ("Bash", "Read")) -> Json:
    """A request of Claude Code's."""
    made = [{"name": one, "input_schema": {"type": "object", "properties": {}}} for one in tools]
    return {
        "system": [{"type": "text", "text": prompt, "cache_control": {"type": "ephemeral"}}],
        "messages": list(messages), "max_tokens": 256, "metadata": metadata, **({"tools": made} if made else {}),
    }  # fmt: skip
