"""Episodes of the terminal as scripts."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from apps.worlds.terminal.world import TerminalWorld
from tentalis.core.worlds import AttemptDraft, DraftStep, Observation, ToolCall, Verification


class Script:
    """An episode that a test plays by hand."""

    def __init__(self, world: TerminalWorld, prompt: str) -> None:
        self.world, self.prompt = world, prompt
        self.state = world.reset(prompt, 0)
        self.steps: list[DraftStep] = []

    def call(self, name: str, arguments: str) -> Observation:
        call = ToolCall(id="c", name=name, arguments=arguments)
        said = self.world.act(self.state, call, f"{len(self.steps)}")
        self.steps.append(DraftStep(kind="call", text=name, tool_name=name, tool_result=said.text))
        return said

    def run(self, command: str) -> str:
        return self.call("run", json.dumps({"command": command})).text

    def type(self, command: str) -> str:
        """On the screen."""
        return self.call("run", json.dumps({"command": command, "screen": True})).text

    def verify(self) -> Verification:
        return self.world.verify_state(self.prompt, None, self.state, AttemptDraft(steps=self.steps))


@contextmanager
def playing(world: TerminalWorld, prompt: str) -> Iterator[Script]:
    script = Script(world, prompt)
    try:
        yield script
    finally:
        world.close(script.state)


def play(world: TerminalWorld, prompt: str, commands: Sequence[str]) -> tuple[Verification, list[Any]]:
    """What came of these commands, and what each was answered."""
    with playing(world, prompt) as script:
        told = [script.run(command) for command in commands]
        script.call("done", "{}")
        return script.verify(), told
