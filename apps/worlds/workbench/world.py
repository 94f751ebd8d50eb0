"""The workbench as a world with turns: a company's tools behind three functions, and a state that is plain JSON."""

import json
import zlib
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar, Final

from tentalis.core.hints import hinted_prompt, write_behind_task
from tentalis.core.workbench import episode, habits, tasks
from tentalis.core.workbench.solving import solve
from tentalis.core.worlds import (
    AttemptDraft,
    DraftStep,
    EpisodeLimits,
    HintGrammar,
    Observation,
    PanelItem,
    Solution,
    ToolCall,
    Verification,
    World,
)

_UNREAD: Final = "error: "
"""What a call's result begins with that never came here."""


def _read_hints(text: str) -> str:
    return ", ".join(habits.parse_hints(text))


class WorkbenchWorld(World):
    """Tasks in, calls of a company's tools, and a company that is as it was asked for out."""

    name = "workbench"
    label = "Workbench"
    made_of = ("tentalis.core.workbench",)
    version = "1"
    profile: ClassVar = {"outcome": 0.5, "step_verifier": 0.5}
    manager = "rule-book"
    grammar = HintGrammar(_read_hints, '"use owner" or "use post"')
    limits = EpisodeLimits(turns=14, tokens=900, seconds=300.0, output_chars=1_000, bad_calls=3)
    idempotent = True

    def tools(self, prompt: str) -> Sequence[Mapping[str, Any]]:
        return episode.FUNCTIONS

    def reset(self, prompt: str, seed: int | None) -> episode.State:
        return episode.begin(prompt, seed)

    def act(self, state: episode.State, call: ToolCall, key: str) -> Observation:
        """Raises nothing: what is wrong with a call is said, and nothing is changed."""
        return Observation(text=episode.act(state, call.name, call.arguments))

    def snapshot(self, state: episode.State) -> bytes:
        return zlib.compress(json.dumps(state).encode())

    def restore(self, prompt: str, snapshot: bytes) -> episode.State:
        found: episode.State = json.loads(zlib.decompress(snapshot))
        return found

    def verify_state(self, prompt: str, reference: Any, state: episode.State, draft: AttemptDraft) -> Verification:
        """Done where the company is what it was but for what was asked, and the agent said so and was not cut off."""
        found = episode.judge(state)
        is_done = found.is_done and draft.ended and not draft.error
        words = _judge_steps(draft.steps, state["calls"], is_done=is_done, why="; ".join(found.why))
        return Verification(
            outcome=float(is_done),
            step_scores=[score for score, _ in words],
            step_reasons=[why for _, why in words],
            missing_steps=found.missing,
            details={
                "expected_steps": (found.optimum or 0) + 1,
                "calls": found.calls,
                "optimum": found.optimum,
                "wasted": found.wasted,
                "efficiency": found.efficiency if is_done else 0.0,
                "habits": found.decided,
                "habit_faults": found.faults,
                "differences": list(found.why),
            },
        )

    def solve(self, prompt: str, seed: int | None) -> Solution:
        """The house's own way, without a call that looks anything up."""
        plan = solve(tasks.parse_task(prompt), self.reset(prompt, seed)["company"])
        told = [json.dumps({"tool": one.tool, "args": one.arguments}) for one in plan.calls]
        return Solution(
            calls=[ToolCall(id=str(place), name=episode.CALL, arguments=one) for place, one in enumerate(told)]
        )

    def find_rules(self, prompt: str) -> Sequence[str]:
        return tasks.parse_task(prompt).hints

    def find_kind(self, prompt: str) -> str:
        try:
            return tasks.parse_task(prompt).kind_of
        except tasks.WorkbenchError:
            return "no task"

    def hinted_messages(self, messages: Sequence[Mapping[str, Any]], hint: str) -> list[dict[str, Any]]:
        """The conversation with the house's hints that are in `hint` behind the task, the person's last words.

        Raises:
            ValueError: the words hold none (the workbench's models understand no others), or there is no task.
        """
        hints = habits.parse_hints(hint)
        if not hints:
            raise ValueError(f"the workbench reads hints like {self.grammar.example}; found {hint[:120]!r}")
        return write_behind_task(messages, hinted_prompt("", hints), noun=self.noun)

    def say_limits(self) -> Sequence[str]:
        return [tasks.say_forms()]

    def check_prompt(self, prompt: str) -> None:
        """Refuse what is not exactly one task; raises ValueError. Hints come from managers, not with the task."""
        task = tasks.parse_task(prompt)
        if prompt.strip() != task.text:
            raise ValueError(f"a task of the workbench stands alone: wanted {task.text!r}, found {prompt[:200]!r}")

    def draw_prompt(self, rng: Random) -> str:
        return tasks.make_task(rng, families=tasks.TRAINED_FAMILIES, kept=False).text

    def is_held_out(self, prompt: str) -> bool:
        return tasks.is_held_out(prompt)

    def panel(self, size: int, seed: int) -> list[PanelItem]:
        """Tasks of the families that are never trained on, in words that no model of ours has read."""
        return _draw(size, seed, tasks.HELD_OUT_FAMILIES)

    def skills(self, size: int, seed: int) -> list[PanelItem]:
        """Held-out tasks of every family in turn, so that none is lost while the others gain."""
        return _draw(size, seed, tasks.FAMILIES)


def _draw(size: int, seed: int, families: Sequence[str]) -> list[PanelItem]:
    rng = Random(f"workbench panel/{seed}")
    drawn = [tasks.make_task(rng, families=[families[place % len(families)]], kept=True) for place in range(size)]
    return [PanelItem(prompt=task.text, seed=rng.randrange(2**31)) for task in drawn]


def _judge_steps(
    steps: Sequence[DraftStep], calls: Sequence[Mapping[str, Any]], *, is_done: bool, why: str
) -> list[tuple[float | None, str]]:
    """(score, why not 1) of each step: of a call as it was judged when it was made. A last word is worth 1 where the
    task is done; else nothing is said of it: the calls before it were wrong, and to go on would be no better."""
    made, said = iter(calls), list[tuple[float | None, str]]()
    for step in steps:
        if step.kind != "call":
            said.append((1.0, "") if is_done else (None, f"it is not done: {why}" if why else "it was cut off"))
        elif step.tool_result.startswith(_UNREAD):
            said.append((0.0, "the call could not be read"))
        else:
            found: Mapping[str, Any] = next(made, {"score": 0.0, "why": "it was not made"})
            said.append((float(found["score"]), "" if found["score"] == 1.0 else str(found["why"])))
    return said
