"""Episodes in repositories as scripts."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from apps.worlds.swe.world import SweWorld
from tentalis.core.swe.mini_repos import read_task
from tentalis.core.swe.mistakes import PARAMETERS
from tentalis.core.worlds import AttemptDraft, DraftStep, Observation, ToolCall, Verification


class Script:
    """An episode that a test plays by hand."""

    def __init__(self, world: SweWorld, prompt: str) -> None:
        self.world, self.prompt = world, prompt
        self.task = read_task(prompt)
        self.state = world.reset(prompt, 0)
        self.steps: list[DraftStep] = []

    def call(self, name: str, arguments: str = "{}") -> Observation:
        said = self.world.act(self.state, ToolCall(id="c", name=name, arguments=arguments), f"{len(self.steps)}")
        self.steps.append(DraftStep(kind="call", text=name, tool_name=name, tool_result=said.text))
        return said

    def do(self, name: str, **arguments: Any) -> str:
        return self.call(name, json.dumps(arguments)).text

    def mend(self, way: str) -> None:
        self.do("edit", path=self.task.path, line=self.task.line, text=self.task.fixes[way].strip())

    def verify(self) -> Verification:
        return self.world.verify_state(self.prompt, None, self.state, AttemptDraft(steps=self.steps))


Agent = Callable[[Script], None]


def play(world: SweWorld, prompt: str, agent: Agent) -> Verification:
    script = Script(world, prompt)
    try:
        agent(script)
        return script.verify()
    finally:
        world.close(script.state)


def solve(script: Script) -> None:
    """Who knows the house."""
    for call in script.world.solve(script.prompt, None).calls:
        script.call(call.name, call.arguments)


def do_nothing(script: Script) -> None:
    script.call("submit")


def at_random(rng: Random) -> Agent:
    """Who puts code of the right grammar, with names that are there, on a line at random."""

    def agent(script: Script) -> None:
        words = [word for kind in PARAMETERS.values() for word in kind if word in "\n".join(script.task.lines)]
        for _ in range(rng.randint(1, 3)):
            line = rng.randint(1, len(script.task.lines))
            expressions = ("max({a}, 0)", "{a}", "sorted({a})", "{a} // {b}", "{a}.strip()", "{a}[-1]", "{a}[:8]", "0")
            text = rng.choice(expressions).format(a=rng.choice(words), b=rng.choice(words))
            script.do("edit", path=script.task.path, line=line, text=f"return {text}")
        script.call("submit")

    return agent


def mend_in(way: int) -> Agent:
    """Who mends it in a way that is not the house's, or is (0)."""

    def agent(script: Script) -> None:
        script.mend(list(script.task.mistake.ways)[way])
        script.call("submit")

    return agent
