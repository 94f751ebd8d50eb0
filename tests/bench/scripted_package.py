"""An agent as a stranger would write it, which needs no model: half of its tasks it does as the world itself would, in
the other half it looks and says that it is done."""

import json
import os
import time
import zlib
from collections.abc import Sequence
from typing import Any

from tentalis.core.worlds import AgentKind, AgentSeat, AttemptDraft, DraftStep, ToolCall, TurnAsked, TurnDraft, World

THINK_S = "SCRIPTED_THINK_S"
"""Variable of the environment: seconds that it takes for a turn."""
LOOK = ToolCall(id="look", name="run", arguments=json.dumps({"command": "sleep 0.1; ls"}))


def goes_right(prompt: str) -> bool:
    return zlib.crc32(prompt.encode()) % 2 == 0


def list_calls(world: World, prompt: str) -> Sequence[ToolCall]:
    solution = world.solve(prompt, None) if goes_right(prompt) else None
    return solution.calls if solution is not None else [LOOK, LOOK]


class ScriptedAgent:
    def take_turns(self, asked: Sequence[TurnAsked], *, world: World, **_: Any) -> list[TurnDraft]:
        time.sleep(float(os.environ.get(THINK_S, "0")))
        return [self._take(one, world) for one in asked]

    def _take(self, asked: TurnAsked, world: World) -> TurnDraft:
        prompt = next(str(message["content"]) for message in asked.messages if message["role"] == "user")
        calls = list_calls(world, prompt)
        if asked.turn >= len(calls):
            draft = AttemptDraft(text="Done.", answer="Done.", steps=[DraftStep(kind="answer", text="Done.")])
            return TurnDraft(draft=draft, messages=[{"role": "assistant", "content": "Done."}])
        call = calls[asked.turn]
        call_id = f"call_{asked.turn}"
        made = {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        return TurnDraft(
            draft=AttemptDraft(messages=asked.messages, tool_calls=[made], finish_reason="tool_calls"),
            calls=[ToolCall(id=call_id, name=call.name, arguments=call.arguments)],
            messages=[{"role": "assistant", "content": None, "tool_calls": [made]}],
        )


def make_agent(seat: AgentSeat) -> Any:
    return ScriptedAgent()


AGENT = AgentKind(name="scripted", label="Scripted agent", make=make_agent, longest_try=0, takes_turns=True)
