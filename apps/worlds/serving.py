"""An episode whose model is somebody outside: each thing that it does is said by them, and they hear what comes of it.

It is played by the player of all episodes, so that limits, faults and what it is worth are as for workers of our own.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from apps.inference.errors import ProviderRefusedError
from apps.worlds.calls import find_call_fault
from apps.worlds.episodes import Episode
from apps.worlds.playing import play
from apps.worlds.registry import find_own_agents
from apps.worlds.verifying import verify_answer
from tentalis.core.tool_calls import WrittenCall, spell_call, write_told_call
from tentalis.core.worlds import (
    AnswerForm,
    AttemptDraft,
    DraftStep,
    ToolCall,
    TurnAsked,
    TurnDraft,
    Verification,
    World,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class OutsideAction:
    """What is done next: a call of a tool, or the last word.

    Args:
        tool: "" for the last word, which `answer` is then.
        arguments: JSON.
    """

    tool: str = ""
    arguments: str = "{}"
    answer: str = ""


@dataclass(frozen=True)
class OutsideResult:
    """What comes of it.

    Args:
        text: what the world says; of the beginning, what its agent is asked.
        tools: that may be called next.
        is_over: the episode ended, and `verification` says what it is worth; None where nothing can be said.
        lost: the fault of the world that ended it: nothing is said of who did it then.
    """

    text: str
    tools: Sequence[Mapping[str, Any]] = ()
    is_over: bool = False
    verification: Verification | None = None
    lost: str = ""


class ServedEpisode:
    """One of them. It has a thread of its own, which ends with it."""

    def __init__(
        self, world: World, *, prompt: str, seed: int, key: str, tell: Callable[[OutsideResult], None]
    ) -> None:
        """Args:
        key: by which the world knows the episode.
        tell: told the task, and then what comes of each thing that is said; from the episode's own thread.
        """
        self._world, self._prompt, self._seed, self._key, self._tell = world, prompt, seed, key, tell
        self._said: SimpleQueue[OutsideAction | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"episode-{key}", daemon=True)
        self._thread.start()

    def do(self, action: OutsideAction) -> None:
        """Do the next thing; what comes of it is told.

        Args:
            action: a call, or the last word.
        """
        self._said.put(action)

    def leave(self) -> None:
        """End it here, with nothing said of it. When this returns its state was given back."""
        self._said.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._tell(self._play() if self._world.has_turns else self._answer())
        except ProviderRefusedError:
            pass  # they left
        except Exception as error:
            logger.warning("an episode that is served broke off", exc_info=True)
            self._tell(OutsideResult("", is_over=True, lost=f"{type(error).__name__}: {error}"))

    def _hear(self) -> OutsideAction:
        said = self._said.get()
        if said is None:
            raise ProviderRefusedError("who does the episode left it")
        return said

    def _play(self) -> OutsideResult:
        episode = Episode(
            key=self._key,
            prompt=self._prompt,
            seed=self._seed,
            opening=self._world.messages_for(self._prompt, ""),
        )
        play([episode], world=self._world, agent=_Outside(self._hear, self._tell), model="")
        last = next((seen.text for seen in reversed(episode.turns[-1].seen or ())), "") if episode.turns else ""
        return OutsideResult(last, is_over=True, verification=episode.verification, lost=episode.lost)

    def _answer(self) -> OutsideResult:
        """In a world without turns: words, in which the world's own worker may call a tool, and go on."""
        form = next((kind.form for kind in find_own_agents() if kind.environment == self._world.name), None)
        parts: list[tuple[str, bool]] = []
        self._tell(OutsideResult(_read_last(self._world.messages_for(self._prompt, ""))))
        while True:
            said = self._hear()
            if said.tool:
                names = "this world has no tools that are called: wanted an answer"
                self._tell(OutsideResult(f"error: {names}, found a call of {said.tool[:100]!r}"))
                continue
            parts.append((said.answer, True))
            call = form.find_call("".join(part for part, _ in parts)) if form else None
            if form is None or call is None:
                break
            result = form.write_result(self._world.call_tool(self._prompt, *call))
            parts.append((result, False))
            self._tell(OutsideResult(result))
        draft = _read_answer(form, parts)
        found = verify_answer(environment=self._world.name, prompt=self._prompt, reference=None, draft=draft)
        return OutsideResult("", is_over=True, verification=found)


def _read_last(messages: Sequence[Mapping[str, Any]]) -> str:
    return str(messages[-1]["content"])


def _read_answer(form: AnswerForm | None, parts: Sequence[tuple[str, bool]]) -> AttemptDraft:
    if form is not None:
        return form.read(parts, is_cut=False)
    answer = parts[-1][0]
    return AttemptDraft(text=answer, answer=answer, steps=[DraftStep(kind="answer", text=answer)])


@dataclass(frozen=True)
class _Outside:
    """The agent of one episode, who waits for what is said."""

    hear: Callable[[], OutsideAction]
    tell: Callable[[OutsideResult], None]

    def take_turns(
        self,
        asked: Sequence[TurnAsked],
        *,
        world: World,
        tools: Sequence[Mapping[str, Any]],
        model: str,
        greedy: bool = False,
    ) -> list[TurnDraft]:
        """See `TurnAgent.take_turns`. Raises ProviderRefusedError where they left."""
        return [self._take_turn(one, tools) for one in asked]

    def _take_turn(self, asked: TurnAsked, tools: Sequence[Mapping[str, Any]]) -> TurnDraft:
        self.tell(OutsideResult(_read_last(asked.messages), tools))
        said = self.hear()
        if not said.tool:
            answer = [DraftStep(kind="answer", text=said.answer)] if said.answer else []
            draft = AttemptDraft(text=said.answer, answer=said.answer, steps=answer, messages=asked.messages)
            return TurnDraft(draft=draft, messages=[{"role": "assistant", "content": said.answer}])
        call = WrittenCall(said.tool, said.arguments)
        parameters = {str(tool["function"]["name"]): tool["function"].get("parameters") for tool in tools}
        call_id = f"t{asked.turn % 10_000:04d}c000"
        made = write_told_call(call_id, call)
        step = DraftStep(kind="call", text=spell_call(call.name, call.arguments), tool_name=call.name[:100])
        return TurnDraft(
            draft=AttemptDraft(messages=asked.messages, steps=[step], tool_calls=[made]),
            calls=[
                ToolCall(id=call_id, name=call.name, arguments=call.arguments, fault=find_call_fault(call, parameters))
            ],
            messages=[{"role": "assistant", "content": "", "tool_calls": [made]}],
        )
