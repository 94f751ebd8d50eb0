"""A world that comes back after its player gave up: whatever it opened is given back, once, when it is not in use."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Event
from typing import Any, Literal

import pytest

from apps.worlds import playing
from apps.worlds.episodes import Episode
from apps.worlds.registry import WORLDS
from tentalis.core.worlds import (
    AttemptDraft,
    EpisodeLimits,
    Observation,
    ToolCall,
    TurnAsked,
    TurnDraft,
    Verification,
    World,
)
from tentalis.outbound.scopes import CancelScope, RequestEndedError

WAIT_S = 120
CALL = ToolCall(id="c", name="look")

Place = Literal["reset", "act"]
GivesUp = Literal["limit", "scope"]


class HangingWorld(World):
    """Hangs in one of its methods until it is let go; when it hangs, its player has every reason to give it up."""

    name = "hanging"
    label = "Hanging"
    version = "1"

    def __init__(self, place: Place, gives_up: GivesUp, scope: CancelScope) -> None:
        self.place, self.gives_up, self.scope = place, gives_up, scope
        self.let_go, self.given_back = Event(), Event()
        self.opened: list[int] = []
        self.closed: list[int] = []

    def tools(self, prompt: str) -> Sequence[Mapping[str, Any]]:
        return [{"type": "function", "function": {"name": CALL.name, "parameters": {"type": "object"}}}]

    def reset(self, prompt: str, seed: int | None) -> int:
        self._hang("reset")
        self.opened.append(len(self.opened))
        return self.opened[-1]

    def act(self, state: int, call: ToolCall, key: str) -> Observation:
        self._hang("act")
        return Observation(text="seen", ends=True)

    def close(self, state: int) -> None:
        self.closed.append(state)
        self.given_back.set()

    def _hang(self, place: Place) -> None:
        if place != self.place:
            return
        if self.gives_up == "scope":
            self.scope.cancel("they left")
        else:
            self.limits = EpisodeLimits(seconds=0.01)  # type: ignore[misc]  # its own alone
        assert self.let_go.wait(WAIT_S)


class Looker:
    def take_turns(self, asked: Sequence[TurnAsked], **_: Any) -> list[TurnDraft]:
        message = {"role": "assistant", "content": ""}
        return [TurnDraft(draft=AttemptDraft(), calls=[CALL], messages=[message]) for _ in asked]


@pytest.mark.parametrize("gives_up", ["limit", "scope"])
@pytest.mark.parametrize("place", ["reset", "act"])
def test_what_a_hanging_world_opened_is_given_back_when_it_comes_back(
    place: Place, gives_up: GivesUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(playing, "LOOK_S", 0.01)
    scope = CancelScope()
    world = HangingWorld(place, gives_up, scope)
    episode = Episode(key="k", prompt="Look.", opening=world.messages_for("Look.", ""))
    try:
        with scope, suppress(RequestEndedError):
            playing.play([episode], world=world, agent=Looker(), model="none")
        assert "did not come back" in episode.lost or scope.is_cancelled
        assert world.closed == [], "nobody takes a state from a world that is at work in it"
    finally:
        world.let_go.set()
    assert world.given_back.wait(WAIT_S), f"opened {world.opened}, closed {world.closed}"
    assert world.closed == world.opened == [0]
    assert not episode.is_open


class MovingWorld(World):
    """Which says what may be called by what stands in its state, and breaks on some."""

    name = "moving"
    label = "Moving"
    version = "1"

    def tools(self, prompt: str) -> Sequence[Mapping[str, Any]]:
        return [{"type": "function", "function": {"name": CALL.name, "parameters": {"type": "object"}}}]

    def tools_now(self, prompt: str, state: dict[str, str]) -> Sequence[Mapping[str, Any]]:
        if prompt == "no list":
            return [{"name": CALL.name}]
        return self.tools(prompt) if state["room"] else []

    def reset(self, prompt: str, seed: int | None) -> dict[str, str]:
        return {} if prompt == "no room" else {"room": "hall"}

    def act(self, state: dict[str, str], call: ToolCall, key: str) -> Observation:
        return Observation(text="seen", ends=True)

    def verify_state(self, prompt: str, reference: Any, state: Any, draft: AttemptDraft) -> Verification:
        return Verification(outcome=1.0)


@pytest.mark.parametrize(("prompt", "words"), [("no room", "KeyError: 'room'"), ("no list", "KeyError: 'function'")])
def test_a_world_that_cannot_say_what_may_be_called_loses_that_episode_and_no_other(
    prompt: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = MovingWorld()
    monkeypatch.setitem(vars(WORLDS), "_loaded", ({**WORLDS._things, world.name: world}, ()))
    broken, whole = Episode(key="1", prompt=prompt), Episode(key="2", prompt="a hall")
    playing.play([broken, whole], world=world, agent=Looker(), model="m")
    assert (broken.lost, broken.is_over, broken.is_open) == (words, True, False)
    assert (whole.lost, whole.is_over) == ("", True)
    assert whole.verification is not None
    assert whole.verification.outcome == 1.0
