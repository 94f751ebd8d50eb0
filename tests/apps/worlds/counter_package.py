"""A package as a stranger would write it: a world with two tools and a state, the agent that plays it, a scorer.

Nothing of the repository knows it. It is copied into a folder of its own and installed by its entry points alone.
"""

from dataclasses import dataclass
from typing import Any

from apps.feedback.managers import ManagerWord
from tentalis.core.scoring.protocol import AttemptContext, ScorerResult
from tentalis.core.worlds import AgentKind, AttemptDraft, DraftStep, Verification, World


class CounterWorld(World):
    """Count to a number: `up` adds to the counter, `read` says where it stands."""

    name = "counter"
    label = "Counting"
    noun = "count"
    keeps_nothing = False
    profile = {"outcome": 0.5, "thrift": 0.5}

    def check_prompt(self, prompt: str) -> None:
        if not prompt.isdecimal():
            raise ValueError(f"wanted a number to count to, found {prompt!r:.40}")

    def call_tool(self, prompt: str, name: str, arguments: str) -> str:
        count = sum(map(int, arguments.split()))
        return {"up": f"counted {arguments.split()[-1]}", "read": str(count)}.get(name, f"no tool {name}")

    def verify(self, prompt: str, reference: Any, draft: AttemptDraft) -> Verification:
        return Verification(outcome=float(draft.answer == prompt), step_scores=[None] * len(draft.steps))


@dataclass(frozen=True)
class CounterAgent:
    """Counts up by two and one until it is there."""

    def work(self, *, prompts: Any, world: World, group_size: int, **_: Any) -> list[list[AttemptDraft]]:
        return [[self._count(prompt, world)] * group_size for prompt in prompts]

    def _count(self, prompt: str, world: World) -> AttemptDraft:
        state, steps = [0], []
        while (left := int(prompt) - sum(state)) > 0:
            state.append(min(left, 2))
            said = world.call_tool(prompt, "up", " ".join(map(str, state)))
            steps.append(DraftStep(kind="call", text=f"up {state[-1]}", tool_name="up", tool_result=said))
        answer = world.call_tool(prompt, "read", " ".join(map(str, state)))
        return AttemptDraft(text=answer, answer=answer, steps=[*steps, DraftStep(kind="answer", text=answer)])


class ThriftScorer:
    """The fewer calls, the better."""

    name = "thrift"

    def score(self, context: AttemptContext) -> ScorerResult:
        calls = sum(step.kind == "call" for step in context.steps)
        return ScorerResult(scorer=self.name, value=1 / max(calls, 1))


class StrictManager:
    """Nothing is ever good enough."""

    name = "strict"
    author = "agent:strict"

    def review(self, task: Any, attempts: Any) -> ManagerWord:
        return ManagerWord(text="Again.", score=0.0)


AGENT = AgentKind(
    name="counting", label="Counting agent", make=lambda seat: CounterAgent(), environment="counter", longest_try=0
)
