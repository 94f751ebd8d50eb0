"""A world in which nothing is wrong, and the same with one thing wrong each."""

import itertools
import json
import uuid
from collections.abc import Sequence
from random import Random
from typing import Any

from tentalis.core.worlds import (
    AttemptDraft,
    EpisodeLimits,
    Observation,
    PanelItem,
    Solution,
    ToolCall,
    Verification,
    World,
)

SAFES, HELD_OUT = 400, 5


def write_tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
    }  # fmt: skip
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


class SafeWorld(World):
    """A safe with a code of four digits, each of which stands on a slip, and a keypad that is tried once."""

    name = "safe"
    label = "Safes"
    version = "1"
    limits = EpisodeLimits(turns=60)
    idempotent = True

    def tools(self, prompt: str) -> Sequence[Any]:
        return [write_tool("read", slip={"enum": [0, 1, 2, 3]}), write_tool("enter", code={"type": "string"}),
                write_tool("note", text={"type": "string"})]  # fmt: skip

    def draw_prompt(self, rng: Random) -> str:
        while self.is_held_out(prompt := f"Open safe {rng.randint(1, SAFES)}."):
            pass
        return prompt

    def is_held_out(self, prompt: str) -> bool:
        return int(prompt.strip(".").split()[-1]) % HELD_OUT == 0

    def panel(self, size: int, seed: int) -> list[PanelItem]:
        rng = Random(seed)
        numbers = [HELD_OUT * rng.randint(1, SAFES // HELD_OUT) for _ in range(size)]
        return [PanelItem(prompt=f"Open safe {number}.", seed=rng.randrange(2**31)) for number in numbers]

    def reset(self, prompt: str, seed: int | None) -> dict[str, Any]:
        return {"code": f"{Random(f'{prompt}/{seed}').randint(1_000, 9_999)}", "entered": [], "notes": []}

    def act(self, state: dict[str, Any], call: ToolCall, key: str) -> Observation:
        told = json.loads(call.arguments)
        if call.name == "read":
            return Observation(text=f"slip {told['slip']} says {state['code'][told['slip']]}")
        state["entered" if call.name == "enter" else "notes"].append(told.get("code", told.get("text")))
        return Observation(text="noted")

    def verify_state(self, prompt: str, reference: Any, state: dict[str, Any], draft: AttemptDraft) -> Verification:
        return Verification(outcome=float(self.is_open(state, draft)), step_scores=[None] * len(draft.steps))

    def is_open(self, state: dict[str, Any], draft: AttemptDraft) -> bool:
        return bool(state["entered"][:1] == [state["code"]])

    def snapshot(self, state: dict[str, Any]) -> bytes:
        return json.dumps(state).encode()

    def restore(self, prompt: str, snapshot: bytes) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(snapshot)
        return found

    def solve(self, prompt: str, seed: int | None) -> Solution:
        code = self.reset(prompt, seed)["code"]
        return Solution(calls=[ToolCall(id="0", name="enter", arguments=json.dumps({"code": code}))])


_count = itertools.count()


class GarbageScores(SafeWorld):
    def verify_state(self, *told: Any) -> Verification:
        return Verification(outcome=float("nan"))


class ScoreBeyondOne(SafeWorld):
    def verify_state(self, *told: Any) -> Verification:
        return Verification(outcome=100.0 * super().verify_state(*told).outcome)  # type: ignore[operator]


class AnyChangeIsRewarded(SafeWorld):
    def is_open(self, state: dict[str, Any], draft: AttemptDraft) -> bool:
        return bool(state["entered"] or state["notes"])


class RewardIsReadable(SafeWorld):
    def act(self, state: dict[str, Any], call: ToolCall, key: str) -> Observation:
        return Observation(text=f"{super().act(state, call, key).text} (answer_key: {state['code']})")


class SolutionIsReadable(SafeWorld):
    def act(self, state: dict[str, Any], call: ToolCall, key: str) -> Observation:
        return Observation(text=f"{super().act(state, call, key).text} {json.dumps({'code': state['code']})}")


class EpisodesShareAState(SafeWorld):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def reset(self, prompt: str, seed: int | None) -> dict[str, Any]:
        return {**super().reset(prompt, seed), "notes": self.notes}


class EpisodesLeaveSomething(SafeWorld):
    def __init__(self) -> None:
        self.acts = 0

    def reset(self, prompt: str, seed: int | None) -> dict[str, Any]:
        return {**super().reset(prompt, seed), "age": self.acts}

    def act(self, state: dict[str, Any], call: ToolCall, key: str) -> Observation:
        self.acts += 1
        return super().act(state, call, key)


class BeginsAnywhere(SafeWorld):
    def reset(self, prompt: str, seed: int | None) -> dict[str, Any]:
        return {**super().reset(prompt, seed), "id": uuid.uuid4().hex}


class RestoresAnother(SafeWorld):
    def restore(self, prompt: str, snapshot: bytes) -> dict[str, Any]:
        return {**super().restore(prompt, snapshot), "entered": ["0000"]}


class TrainsOnHeldOut(SafeWorld):
    def draw_prompt(self, rng: Random) -> str:
        return f"Open safe {rng.randint(1, SAFES)}."


class MeasuresOnTrained(SafeWorld):
    def panel(self, size: int, seed: int) -> list[PanelItem]:
        rng = Random(seed)
        return [PanelItem(prompt=f"Open safe {rng.randint(1, SAFES)}.", seed=one) for one in range(size)]


class FlakyVerifier(SafeWorld):
    def is_open(self, state: dict[str, Any], draft: AttemptDraft) -> bool:
        return super().is_open(state, draft) and next(_count) % 3 < 2


class ConstantReward(SafeWorld):
    def is_open(self, state: dict[str, Any], draft: AttemptDraft) -> bool:
        return True


class NeverRewards(SafeWorld):
    def is_open(self, state: dict[str, Any], draft: AttemptDraft) -> bool:
        return False


class OracleIsWrong(SafeWorld):
    def solve(self, prompt: str, seed: int | None) -> Solution:
        return Solution(calls=[ToolCall(id="0", name="enter", arguments='{"code": "0000"}')])


class GuessingPays(SafeWorld):
    def is_open(self, state: dict[str, Any], draft: AttemptDraft) -> bool:
        return len(state["entered"]) > 0


class IdlenessPays(SafeWorld):
    def is_open(self, state: dict[str, Any], draft: AttemptDraft) -> bool:
        return super().is_open(state, draft) or not draft.steps


class GarbagePays(SafeWorld):
    def is_open(self, state: dict[str, Any], draft: AttemptDraft) -> bool:
        junk = [step for step in draft.steps if step.tool_result.startswith("error: ")]
        return super().is_open(state, draft) or len(junk) > 2


class TamperingPays(SafeWorld):
    def is_open(self, state: dict[str, Any], draft: AttemptDraft) -> bool:
        return super().is_open(state, draft) or any("reward" in note for note in state["notes"])


class CheatingPays(SafeWorld):
    def is_open(self, state: dict[str, Any], draft: AttemptDraft) -> bool:
        return super().is_open(state, draft) or state["notes"] == ["sesame"]

    def cheat(self, prompt: str, seed: int | None) -> Sequence[Solution]:
        """Known in the tasks that are looked at last."""
        call = ToolCall(id="0", name="note", arguments='{"text": "sesame"}')
        return [Solution(calls=[call])] if self.is_held_out(prompt) else []


class RaisingVerifier(SafeWorld):
    def verify_state(self, *told: Any) -> Verification:
        raise RuntimeError("the grader fell over")


class RaisingTool(SafeWorld):
    def act(self, state: dict[str, Any], call: ToolCall, key: str) -> Observation:
        if call.name == "note":
            raise OSError("no space left")
        return super().act(state, call, key)


class LuckIsEverything(SafeWorld):
    chance = 0.9


class SaysNothing(SafeWorld):
    def verify_state(self, *told: Any) -> None:  # type: ignore[override]
        return None


BROKEN: dict[type[SafeWorld], str] = {
    GarbageScores: "oracle", ScoreBeyondOne: "oracle", AnyChangeIsRewarded: "guesses",
    RewardIsReadable: "what is shown",
    SolutionIsReadable: "what is shown", EpisodesShareAState: "beginnings", EpisodesLeaveSomething: "beginnings",
    BeginsAnywhere: "beginnings", RestoresAnother: "beginnings", TrainsOnHeldOut: "held out",
    MeasuresOnTrained: "held out", FlakyVerifier: "verifier", ConstantReward: "idleness", NeverRewards: "oracle",
    OracleIsWrong: "oracle", GuessingPays: "guesses", IdlenessPays: "idleness", GarbagePays: "garbage",
    TamperingPays: "tampering", CheatingPays: "cheats", RaisingVerifier: "oracle", RaisingTool: "beginnings",
    LuckIsEverything: "guesses", SaysNothing: "oracle",
}  # fmt: skip
"""What is broken -> the check that must object, whichever others do."""
