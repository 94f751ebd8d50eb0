"""Steps whose calls others decided on: nothing is said of them, and the others keep what they are worth."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from django.test import override_settings

from apps.worlds.episodes import Episode, Instead, PlayedTurn
from apps.worlds.playing import CHANGED, NOT_MADE, play
from apps.worlds.registry import get_world
from apps.worlds.sandboxes import open_client
from tentalis.core.swe.mini_repos import draw_task
from tentalis.core.tool_calls import WrittenCall, write_told_call
from tentalis.core.worlds import AttemptDraft, DraftStep, ToolCall, TurnAsked, TurnDraft, Verification
from tentalis.sandbox.client import start_host
from tests.sandbox.conftest import find_obstacle

pytestmark = pytest.mark.django_db

PROMPTS = {
    "swe": draw_task(Random(1), held_out=True).text,
    "terminal": "#12 Pack the folder mail for the courier.",
    "workbench": "Remind the vip Berg of the small bill.",
}
BAD = {
    "swe": ("edit", {"path": "README.md", "line": 1, "text": "pass"}),
    "terminal": ("run", {"command": "rm -rf mail"}),
    "workbench": ("tools_call", {"tool": "calendar.clear", "args": {"day": "Monday"}}),
}
UNREADABLE = {
    "swe": ("edit", {"path": "no/such.py", "line": 1, "text": "pass"}),
    "terminal": ("run", {"command": ""}),
    "workbench": ("tools_call", {"tool": "no.such", "args": {}}),
}
REFUSED = Instead(words="not allowed: never do that")


@pytest.fixture(params=sorted(PROMPTS))
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "workbench":
        yield request.param
        return
    if obstacle := find_obstacle():
        pytest.skip(obstacle)
    with start_host(tmp_path / "host"), override_settings(SANDBOXES=tmp_path / "host"):
        yield request.param
        open_client().close()


class Script:
    """Makes the calls of one turn after the other, and says that it is done."""

    def __init__(self, turns: Sequence[Sequence[ToolCall]], before: int) -> None:
        self.turns, self.before = turns, before

    def take_turns(self, asked: Sequence[TurnAsked], **_: Any) -> list[TurnDraft]:
        return [self._say(one.turn - self.before) for one in asked]

    def _say(self, turn: int) -> TurnDraft:
        if turn < len(self.turns):
            told = [write_told_call(call.id, WrittenCall(call.name, call.arguments)) for call in self.turns[turn]]
            message = {"role": "assistant", "content": "", "tool_calls": told}
            return TurnDraft(draft=AttemptDraft(), calls=self.turns[turn], messages=[message])
        last = AttemptDraft(text="Done.", answer="Done.", steps=[DraftStep(kind="answer", text="Done.")])
        return TurnDraft(draft=last, messages=[{"role": "assistant", "content": "Done."}])


def make_call(told: tuple[str, Any]) -> ToolCall:
    return ToolCall(id="c", name=told[0], arguments=json.dumps(told[1]))


def solve(environment: str) -> list[ToolCall]:
    solution = get_world(environment).solve(PROMPTS[environment], 1)
    assert solution is not None
    return list(solution.calls)


def run(environment: str, turns: Sequence[Sequence[ToolCall]], *decided: tuple[ToolCall, Instead]) -> Verification:
    """What is said of an episode of these turns behind those calls, of which others decided so."""
    before = [PlayedTurn(draft=AttemptDraft(), calls=[call], instead={0: one}, is_unmade=True) for call, one in decided]
    world, prompt = get_world(environment), PROMPTS[environment]
    episode = Episode(key="k", prompt=prompt, seed=1, opening=world.messages_for(prompt, ""), turns=before)
    play([episode], world=world, agent=Script(turns, len(before)), model="none")
    assert episode.lost == ""
    assert episode.verification is not None
    assert len(episode.verification.step_scores) == len(episode.join().steps)
    return episode.verification


def test_a_refused_call_has_no_score_and_the_right_ones_keep_theirs(environment: str) -> None:
    right = [[call] for call in solve(environment)]
    alone = run(environment, right)
    assert (alone.outcome, 1.0 in alone.step_scores) == (1.0, True)
    found = run(environment, right, (make_call(BAD[environment]), REFUSED))
    assert (found.outcome, list(found.step_scores)) == (1.0, [None, *alone.step_scores])
    assert list(found.step_reasons) == [NOT_MADE, *alone.step_reasons]


def test_what_others_had_called_is_not_the_models_own_and_the_right_ones_keep_their_scores(environment: str) -> None:
    first, *rest = solve(environment)
    alone = run(environment, [[first], *([call] for call in rest)])
    changed = Instead(words="[this call was changed before it was made: ...]", call=first)
    found = run(environment, [[call] for call in rest], (make_call(BAD[environment]), changed))
    assert (found.outcome, list(found.step_scores)) == (1.0, [None, *alone.step_scores[1:]])
    assert list(found.step_reasons) == [CHANGED, *alone.step_reasons[1:]]


def test_a_call_that_others_changed_into_none_that_can_be_made_moves_no_score(environment: str) -> None:
    right = [[call] for call in solve(environment)]
    changed = Instead(words="[this call was changed before it was made: ...]", call=make_call(UNREADABLE[environment]))
    found = run(environment, right, (make_call(BAD[environment]), changed))
    assert (found.outcome, list(found.step_scores)) == (1.0, [None, *run(environment, right).step_scores])


@pytest.mark.parametrize("environment", ["swe", "terminal"], indirect=True)
def test_a_call_behind_the_one_that_ends_the_episode_has_no_score(environment: str) -> None:
    *most, last = solve(environment)
    found = run(environment, [*([call] for call in most), [last, make_call(BAD[environment])]])
    alone = run(environment, [*([call] for call in most), [last]])
    assert (found.outcome, list(found.step_scores)) == (1.0, [*alone.step_scores, None])
    assert found.step_reasons[-1] == NOT_MADE
