"""The workbench as a world: played by the platform's own player, judged step by step, hinted, held out."""

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from apps.worlds.episodes import Episode
from apps.worlds.playing import play
from apps.worlds.workbench.world import WorkbenchWorld
from tentalis.core.scoring.weights import WeightProfile
from tentalis.core.tool_calls import WrittenCall, write_told_call
from tentalis.core.workbench import tasks
from tentalis.core.worlds import AttemptDraft, DraftStep, ToolCall, TurnAsked, TurnDraft, Verification

PROMPT = "Remind the vip Berg of the small bill."
World = WorkbenchWorld()


class Script:
    """An agent that makes the same calls whatever it is told, and says that it is done."""

    def __init__(self, calls: Sequence[tuple[str, str]]) -> None:
        self.calls = calls

    def take_turns(self, asked: Sequence[TurnAsked], **_: Any) -> list[TurnDraft]:
        return [self._say(one.turn) for one in asked]

    def _say(self, turn: int) -> TurnDraft:
        if turn >= len(self.calls):
            last = AttemptDraft(text="Done.", answer="Done.", steps=[DraftStep(kind="answer", text="Done.")])
            return TurnDraft(draft=last, messages=[{"role": "assistant", "content": "Done."}])
        name, arguments = self.calls[turn]
        told = write_told_call(f"c{turn}", WrittenCall(name, arguments))
        return TurnDraft(
            draft=AttemptDraft(text=""),
            calls=[ToolCall(id=f"c{turn}", name=name, arguments=arguments)],
            messages=[{"role": "assistant", "content": "", "tool_calls": [told]}],
        )


def play_script(calls: Sequence[tuple[str, str]], prompt: str = PROMPT, seed: int = 1) -> Verification:
    opening = World.messages_for(prompt, "")
    episode = Episode(key="k", prompt=prompt, seed=seed, opening=opening)
    play([episode], world=World, agent=Script(calls), model="none")
    assert episode.lost == ""
    assert episode.verification is not None
    return episode.verification


def solve(prompt: str = PROMPT, seed: int = 1) -> list[tuple[str, str]]:
    return [(one.name, one.arguments) for one in World.solve(prompt, seed).calls]


pytestmark = pytest.mark.django_db


def test_what_solves_a_task_is_worth_everything_step_by_step() -> None:
    found = play_script(solve())
    assert (found.outcome, found.infrastructure, found.missing_steps) == (1.0, "", 0)
    assert list(found.step_scores) == [1.0, 1.0, 1.0]
    assert list(found.step_reasons) == ["", "", ""]
    told = {name: found.details[name] for name in ("calls", "optimum", "wasted", "efficiency", "habit_faults")}
    assert told == {"calls": 2, "optimum": 2, "wasted": 0, "efficiency": 1.0, "habit_faults": 0}
    assert found.grader.startswith("workbench@1+")


def test_a_habit_of_other_houses_is_told_at_the_step_that_shows_it() -> None:
    read, (name, arguments) = solve()
    found = play_script([read, (name, arguments.replace('"owner"', '"nobody"'))])
    assert found.outcome == 0.0
    assert list(found.step_scores) == [1.0, 0.0, None]
    assert found.step_reasons[1] == "not as this house does it: wanted owner, found nobody"
    assert found.details["habit_faults"] == 1


def test_calls_that_cannot_be_made_are_judged_at_their_own_places() -> None:
    read, mail = solve()
    found = play_script([("tools_run", "{}"), read, ("tools_call", '{"tool": "x", "args": {}}'), mail])
    assert found.outcome == 1.0
    assert list(found.step_scores) == [0.0, 1.0, 0.0, 1.0, 1.0]
    assert found.step_reasons[2] == "refused: there is no tool 'x'"
    assert found.details["wasted"] == 1
    assert found.details["valid_actions"] == 3


def test_a_snapshot_is_the_state_again_and_a_state_goes_on_from_it() -> None:
    state = World.reset(PROMPT, 4)
    first, *rest = World.solve(PROMPT, 4).calls
    World.act(state, first, "a")
    again = World.restore(PROMPT, World.snapshot(state))
    assert World.hash_state(again) == World.hash_state(state)
    for one in rest:
        World.act(again, one, "b")
    draft = AttemptDraft(text="Done.", answer="Done.")
    assert World.verify_state(PROMPT, None, again, draft).outcome == 1.0
    assert World.verify_state(PROMPT, None, state, draft).outcome == 0.0
    cut = AttemptDraft(text="", ended=False)
    assert World.verify_state(PROMPT, None, again, cut).outcome == 0.0


def test_a_manager_says_this_houses_habits_and_a_hint_stands_behind_the_task() -> None:
    assert list(World.find_rules(PROMPT)) == ["use post", "use owner"]
    assert World.find_kind(PROMPT) == "remind, vip"
    messages: list[dict[str, Any]] = [
        *World.messages_for(PROMPT, ""),
        {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "tool", "tool_call_id": "c", "content": "bill 41, open"},
    ]
    hinted = World.hinted_messages(messages, "Here we use owner, use post.")
    assert hinted[0]["content"] == f"{PROMPT} Hint: use owner, use post."
    assert hinted[1:] == messages[1:]
    with pytest.raises(ValueError, match="reads hints like"):
        World.hinted_messages(messages, "Be nice.")
    assert World.grammar.read("use owner please") == "use owner"


def test_what_is_drawn_to_train_on_is_never_held_out_and_the_panel_always_is() -> None:
    rng = Random(5)
    drawn = {World.draw_prompt(rng) for _ in range(300)}
    assert not any(map(World.is_held_out, drawn))
    panel, skills = World.panel(60, 1), World.skills(60, 1)
    assert all(World.is_held_out(one.prompt) for one in [*panel, *skills])
    assert {tasks.parse_task(one.prompt).family for one in panel} == set(tasks.HELD_OUT_FAMILIES)
    assert {tasks.parse_task(one.prompt).family for one in skills} == set(tasks.FAMILIES)
    assert panel == World.panel(60, 1) != World.panel(60, 2)
    for one in panel:
        World.check_prompt(one.prompt)
    with pytest.raises(ValueError, match="stands alone"):
        World.check_prompt(f"{PROMPT} Hint: use owner.")


def test_its_profile_is_one_and_its_functions_names_are_what_the_chat_api_allows() -> None:
    WeightProfile("workbench", World.profile)
    names = [one["function"]["name"] for one in World.tools(PROMPT)]
    assert names == ["tools_search", "tools_describe", "tools_call"]
    assert json.dumps(World.tools(PROMPT))
