"""The leaderboard's conversations: played turn by turn, right where the leaderboard's own calls are, and bounded."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from apps.evals.catalogue import find_entry
from apps.worlds.bfcl import WORLD
from apps.worlds.bfcl.machines import Machines, play_right
from apps.worlds.bfcl.rows import CATEGORIES, MORE_FUNCTIONS, BfclRow, load_rows, read_call
from apps.worlds.bfcl.world import MOST_CALLS, find_row
from apps.worlds.episodes import Episode
from apps.worlds.playing import play
from tentalis.core.graders.calls import CalledFunction
from tentalis.core.worlds import AttemptDraft, ToolCall, TurnAsked, TurnDraft
from tests.bench.catalogue_played import (
    ASKED_TOO_EARLY,
    grade_script,
    probe_conversations,
    write_calls,
    write_script,
)
from tests.bench.scripted_turns import Said, Script, play_script

pytestmark = pytest.mark.django_db
EVERY = 25


def script(row: BfclRow) -> list[Said]:
    return write_script(row.right)


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_right_calls_are_right_and_nothing_else_is(category: str) -> None:
    rows = list(load_rows(category).values())
    assert len(rows) == 200
    probed = probe_conversations(category, rows[::EVERY])
    assert probed.find_faults() == []
    assert list(probed.values) == ["oracle", "empty", "garbage", "another item's", "refusal"]
    for row in rows[::EVERY]:
        if row.right[-1]:
            assert grade_script(WORLD, row.prompt, script(row)[:-2]) == 0.0, row.id


def test_a_conversation_can_be_done_with_what_is_offered_but_one_whose_function_comes_too_late() -> None:
    failed = []
    for category in CATEGORIES:
        of_all = load_rows(category)
        for row in [*list(of_all.values())[::5], *filter(None, [of_all.get(ASKED_TOO_EARLY)])]:
            state = WORLD.reset(row.prompt, 0)
            for calls in row.right:
                offered = {tool["function"]["name"] for tool in WORLD.tools_now(row.prompt, state)}
                failed += [row.id for call in calls if call.name not in offered]
                for call in write_calls(calls):
                    assert not WORLD.act(state, call, "").ends
                WORLD.reply(state, "Done.", "")
            episode_end = WORLD.verify_state(row.prompt, None, state, AttemptDraft())
            assert episode_end.outcome == 1.0, (row.id, episode_end.details)
    assert failed == [ASKED_TOO_EARLY]


def test_what_is_right_is_the_same_however_often_it_is_played() -> None:
    rows = [row for row in load_rows("multi_turn_base").values() if "TwitterAPI" in row.classes]
    for row in rows:
        first, again = play_right(row), play_right(row)
        assert first == again, row.id


def test_a_user_says_one_thing_after_another_and_functions_come_when_they_are_told() -> None:
    row = find_row("multi_turn_miss_func_0")
    assert row.held_back == {3: ("sort",)}
    episode, agent = play_script(WORLD, row.prompt, script(row))
    said = [one["content"] for one in episode.list_messages() if one["role"] == "user"]
    assert said == list(row.words)
    assert said[3] == MORE_FUNCTIONS
    turns = [sum(one["role"] == "user" for one in turn.draft.messages) for turn in episode.turns]
    assert [("sort" in offered) for offered in agent.offered] == [number > 3 for number in turns]
    assert episode.verification is not None
    assert episode.verification.details["user_turns"] == len(row.words)


def test_where_other_functions_are_offered_a_model_is_not_asked_to_go_on_from_its_tokens() -> None:
    row, went_on = find_row("multi_turn_miss_func_0"), list[bool]()

    class Told(Script):
        def take_turns(
            self, asked: Sequence[TurnAsked], *, tools: Sequence[Mapping[str, Any]], **_: Any
        ) -> list[TurnDraft]:
            went_on.extend(bool(one.token_ids) for one in asked)
            said = super().take_turns(asked, tools=tools)
            return [replace(one, draft=replace(one.draft, prompt_token_ids=[1], token_ids=[2])) for one in said]

    opening = WORLD.messages_for(row.prompt, "")
    episode = Episode(key="tokens", prompt=row.prompt, opening=opening)
    agent = Told({opening[0]["content"]: script(row)})
    play([episode], world=WORLD, agent=agent, model="none")
    first_with_sort = next(place for place, offered in enumerate(agent.offered) if "sort" in offered)
    assert [place for place, goes_on in enumerate(went_on) if not goes_on] == [0, first_with_sort]


def test_what_a_model_asks_of_the_machines_is_bounded() -> None:
    math = Machines(
        find_row(next(one.prompt for one in load_rows("multi_turn_base").values() if "MathAPI" in one.classes))
    )
    asked: dict[str, dict[str, Any]] = {
        "power": {"base": 10, "exponent": 10**12},
        "square_root": {"number": 2, "precision": 10**9},
        "logarithm": {"value": 2, "base": 10, "precision": 10**9},
        "round_number": {"number": 2, "decimal_places": -(10**9)},
        "add": {"a": float("inf"), "b": 1},
        "sum_values": {"numbers": [1] * 10_000},
        "__init__": {},
        "no_such": {},
    }
    for name, arguments in asked.items():
        assert math.call(name, arguments).startswith("Error during execution: "), name


def test_a_state_that_grows_without_end_ends_the_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    """And is known again at each step until then."""
    monkeypatch.setattr("apps.worlds.bfcl.machines.MOST_STATE", 200_000)
    row = find_row("multi_turn_base_1")
    state = WORLD.reset(row.prompt, 0)
    calls = [CalledFunction("mkdir", {"dir_name": "x0"})]
    for n in range(40):
        calls += [
            CalledFunction("cp", {"source": f"x{n}", "destination": f"x{n + 1}"}),
            CalledFunction("cp", {"source": f"x{n}", "destination": f"x{n + 1}"}),
        ]
    hashes = [WORLD.hash_state(state)]
    for call in write_calls(calls):
        is_over = WORLD.act(state, call, "").ends
        hashes.append(WORLD.hash_state(state))
        if is_over:
            break
    assert state.why == "the state is too large"
    assert len(set(hashes)) == len(hashes) > 3
    assert WORLD.verify_state(row.prompt, None, state, AttemptDraft()).outcome == 0.0


def test_who_calls_without_end_is_stopped_and_has_done_nothing() -> None:
    row = find_row("multi_turn_base_1")
    look = [ToolCall(id="c", name="pwd")]
    episode, _ = play_script(WORLD, row.prompt, [look] * (MOST_CALLS + 1))
    assert len(episode.turns) == MOST_CALLS
    assert episode.verification is not None
    assert episode.verification.outcome == 0.0
    assert "makes 100 calls" in episode.verification.details["why"]


@pytest.mark.parametrize("text", ["__import__('os').getcwd()", "cd(folder=open('/etc/passwd').read())", "cd", "1 + 1"])
def test_no_text_of_a_call_is_run(text: str) -> None:
    with pytest.raises(ValueError, match=r"[a-z]"):
        read_call(text, ["GorillaFileSystem"])


def test_a_conversation_is_named_in_the_first_line_and_nothing_of_the_name_is_shown() -> None:
    row = find_row("multi_turn_base_3")
    assert WORLD.messages_for(row.prompt, "")[-1]["content"] == row.words[0]
    assert WORLD.is_held_out(row.prompt)
    for prompt, words in {"multi_turn_base_900": "multi_turn_base_0", f"{row.id}\n\nhello": "first words"}.items():
        with pytest.raises(ValueError, match=words):
            WORLD.check_prompt(prompt)


def test_the_catalogue_asks_all_of_them_and_trains_on_none() -> None:
    for category in CATEGORIES:
        entry = find_entry(f"bfcl/{category}")
        items = entry.list_items("held_out")
        assert (len(items), list(entry.sizes), entry.is_offline) == (200, ["held_out"], True)
        for item in items:
            WORLD.check_prompt(item.prompt)
            assert item.category == category
