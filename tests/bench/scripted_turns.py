"""An agent that says and calls what it is told to, and the platform's own player around it."""

from collections.abc import Mapping, Sequence
from typing import Any

from apps.worlds.episodes import Episode
from apps.worlds.playing import play
from tentalis.core.tool_calls import WrittenCall, write_told_call
from tentalis.core.worlds import AttemptDraft, DraftStep, ToolCall, TurnAsked, TurnDraft, World

Said = str | Sequence[ToolCall]
"""What is done in a turn: words, or calls."""


class Script:
    """One script an episode, by the first words that it is asked with.

    Attributes:
        offered: names of the tools of each turn that was asked.
    """

    def __init__(self, scripts: Mapping[str, Sequence[Said]]) -> None:
        self.scripts = scripts
        self.offered: list[set[str]] = []

    def take_turns(
        self, asked: Sequence[TurnAsked], *, tools: Sequence[Mapping[str, Any]], **_: Any
    ) -> list[TurnDraft]:
        self.offered += [{tool["function"]["name"] for tool in tools} for _ in asked]
        return [self._say(one) for one in asked]

    def _say(self, asked: TurnAsked) -> TurnDraft:
        script = self.scripts[asked.messages[0]["content"]]
        said = script[asked.turn] if asked.turn < len(script) else "Done."
        if isinstance(said, str):
            step = [DraftStep(kind="answer", text=said)] if said else []
            draft = AttemptDraft(text=said, answer=said, steps=step, messages=asked.messages)
            return TurnDraft(draft=draft, messages=[{"role": "assistant", "content": said}])
        made = [write_told_call(call.id, WrittenCall(call.name, call.arguments)) for call in said]
        steps = [DraftStep(kind="call", text=call.name, tool_name=call.name) for call in said]
        draft = AttemptDraft(steps=steps, tool_calls=made, messages=asked.messages)
        return TurnDraft(
            draft=draft, calls=list(said), messages=[{"role": "assistant", "content": "", "tool_calls": made}]
        )


def play_script(world: World, prompt: str, script: Sequence[Said], *, seed: int = 0) -> tuple[Episode, Script]:
    """An episode to its end."""
    opening = world.messages_for(prompt, "")
    agent = Script({opening[0]["content"]: script})
    episode = Episode(key="scripted", prompt=prompt, seed=seed, opening=opening)
    play([episode], world=world, agent=agent, model="none")
    return episode, agent
