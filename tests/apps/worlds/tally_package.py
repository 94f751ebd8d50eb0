"""A world with turns as a stranger would write it, whose effects are counted outside: in an SQLite file, by key.

Its agent needs no model: what it says follows from the conversation alone (`say`), token for token.
"""

import json
import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from random import Random
from string import ascii_letters
from typing import Any

from tentalis.core.worlds import (
    AgentKind,
    AgentSeat,
    AttemptDraft,
    DraftStep,
    EpisodeLimits,
    Observation,
    ToolCall,
    TurnAsked,
    TurnDraft,
    Verification,
    World,
)

EFFECTS = "TALLY_EFFECTS"
"""Variable of the environment: the file."""
THINK_S, PAD_CHARS = "TALLY_THINK_S", "TALLY_PAD_CHARS"
"""Variables of the environment: seconds that its agent takes for a turn, and how much more is said in each; 0."""
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add to the tally.",
        "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    },
}


@dataclass
class Tally:
    """The state: `added` numbers, one a call."""

    added: list[int] = field(default_factory=list)


class TallyWorld(World):
    """Add ones until the tally is the number that the prompt says."""

    name = "tally"
    label = "Tally"
    version = "1"
    keeps_nothing = False
    profile = {"outcome": 1.0}
    limits = EpisodeLimits(turns=20, seconds=60.0, output_chars=400)
    idempotent = True

    def check_prompt(self, prompt: str) -> None:
        if not prompt.split(" ")[0].isdecimal():
            raise ValueError(f"wanted a number to add up to, found {prompt!r:.40}")

    def tools(self, prompt: str) -> Sequence[Mapping[str, Any]]:
        return [ADD]

    def reset(self, prompt: str, seed: int | None) -> Tally:
        return Tally()

    def act(self, state: Tally, call: ToolCall, key: str) -> Observation:
        number = json.loads(call.arguments)["number"]
        count_effect(key)
        state.added.append(number)
        more = "." * 1_000 if number > 1 else pad(key)
        return Observation(text=f"{more}the tally is {sum(state.added)}")

    def hash_state(self, state: Tally) -> str:
        return "-".join(map(str, state.added))

    def snapshot(self, state: Tally) -> bytes | None:
        return json.dumps(state.added).encode()

    def restore(self, prompt: str, snapshot: bytes) -> Tally:
        return Tally(json.loads(snapshot))

    def verify_state(self, prompt: str, reference: Any, state: Tally, draft: AttemptDraft) -> Verification:
        wanted = int(prompt.split(" ")[0])
        return Verification(outcome=float(sum(state.added) == wanted and draft.answer == str(wanted)))


def count_effect(key: str) -> None:
    """What the world changes outside: one that knows the key already changes nothing."""
    with closing(sqlite3.connect(os.environ[EFFECTS], timeout=30, isolation_level=None)) as effects:
        effects.execute("CREATE TABLE IF NOT EXISTS effect (key TEXT PRIMARY KEY, asked INTEGER)")
        effects.execute("INSERT INTO effect VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET asked = asked + 1", [key])


def pad(seed: str) -> str:
    """Words that nothing makes shorter, of the length that is asked for."""
    size = int(os.environ.get(PAD_CHARS, "0"))
    return "".join(Random(seed).choices(ascii_letters, k=size)) + " " if size else ""


def say(messages: Sequence[Mapping[str, Any]]) -> str:
    """One more call, until a tool said the number that was asked for."""
    wanted = next(message["content"] for message in messages if message["role"] == "user").split(" ")[0]
    told = [message["content"] for message in messages if message["role"] == "tool"]
    return wanted if told and told[-1].split(" ")[-1] == wanted else 'add {"number": 1}'


class TallyAgent:
    def take_turns(self, asked: Sequence[TurnAsked], **_: Any) -> list[TurnDraft]:
        time.sleep(float(os.environ.get(THINK_S, "0")))
        return [self._take(one) for one in asked]

    def _take(self, asked: TurnAsked) -> TurnDraft:
        text = say(asked.messages)
        name, _, arguments = text.partition(" ")
        if arguments and (more := pad(str(asked.turn))):
            arguments = json.dumps({**json.loads(arguments), "why": more})
            text = f"{name} {arguments}"
        call_id = f"call_{asked.turn}"
        call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        is_call = bool(arguments)
        tokens = [100 + asked.turn, *text.encode()]
        known = [*asked.prompt_token_ids, *asked.token_ids]
        draft = AttemptDraft(
            text="" if is_call else text,
            answer="" if is_call else text,
            steps=[] if is_call else [DraftStep(kind="answer", text=text, token_start=1, token_end=len(tokens))],
            messages=asked.messages,
            prompt_token_ids=[*known, 1, 2, 3],
            token_ids=tokens,
            logprobs=[-0.5] * len(tokens),
            sampled=[True] * len(tokens),
            tool_calls=[call] if is_call else [],
            finish_reason="tool_calls" if is_call else "stop",
            sampling={"temperature": 1.0},
        )
        said = {"role": "assistant", "content": None, "tool_calls": [call]} if is_call else None
        calls = [ToolCall(id=call_id, name=name, arguments=arguments)] if is_call else []
        return TurnDraft(draft=draft, calls=calls, messages=[said or {"role": "assistant", "content": text}])


def make_agent(seat: AgentSeat) -> Any:
    return TallyAgent()


AGENT = AgentKind(
    name="tallying",
    label="Tallying agent",
    make=make_agent,
    environment="tally",
    longest_try=0,
    takes_turns=True,
)
