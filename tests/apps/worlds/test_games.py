"""Games for one: the same for the same number, won by who knows how, by nobody else, and each with dice of its own."""

import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from apps.evals.catalogue import find_entry
from apps.worlds.examining import examine
from apps.worlds.games import WORLD, library
from apps.worlds.games.table import GAMES, HELD_OUT_EVERY
from apps.worlds.games.world import PlayedGame, begin, write_move, write_prompt
from apps.worlds.identity import name_world
from tentalis.core.worlds import AttemptDraft
from tests.bench.scripted_turns import Said, play_script

pytestmark = pytest.mark.django_db
NUMBERS = (12, 35)
SLOW = ("rush-hour", "sokoban")
TRIES = 60
MOST_LUCK = 0.1


def worth(board: PlayedGame, prompt: str) -> float | None:
    return WORLD.verify_state(prompt, None, board, AttemptDraft()).outcome


@pytest.mark.parametrize("name", sorted(GAMES))
def test_a_game_is_won_by_who_knows_how_and_by_nobody_else(name: str) -> None:
    prompt, other = (write_prompt(name, number) for number in NUMBERS)
    solution, theirs = WORLD.solve(prompt, 0), WORLD.solve(other, 0)
    episode, _ = play_script(WORLD, prompt, [[call] for call in solution.calls])
    assert episode.verification is not None
    assert (episode.lost, episode.verification.outcome) == ("", 1.0)
    assert episode.verification.details["moves"] == len(solution.calls) == len(episode.turns)
    scripts: list[Sequence[Said]] = [
        ["I cannot answer."],
        [""],
        [[write_move("asdf qwer", 0)], [write_move("[[[", 1)], [write_move("[99 99 99]", 2)]],
        [[call] for call in theirs.calls],
    ]
    for script in scripts:
        episode, _ = play_script(WORLD, prompt, script)
        assert episode.verification is not None
        assert (episode.lost, episode.verification.outcome) == ("", 0.0), script


@pytest.mark.parametrize("name", sorted(GAMES))
def test_the_same_number_is_the_same_game_and_another_is_another(name: str) -> None:
    first, again, other = (begin(write_prompt(name, number)) for number in (*NUMBERS[:1], *NUMBERS))
    assert first.shown == again.shown
    assert WORLD.hash_state(first) == WORLD.hash_state(again) != WORLD.hash_state(other)
    assert WORLD.messages_for(write_prompt(name, NUMBERS[0]), "")[-1]["content"].startswith(first.shown[0])
    move = first.game.draw(first.env, Random(1))
    assert first.move(move) == again.move(move)
    assert WORLD.hash_state(first) == WORLD.hash_state(again)


@pytest.mark.parametrize("name", [name for name in sorted(GAMES) if name not in SLOW])
def test_who_moves_at_random_hardly_ever_wins(name: str) -> None:
    won, rng = 0, Random(f"luck/{name}")
    for _ in range(TRIES):
        board = begin(write_prompt(name, rng.randint(1, 999_999)))
        while not board.is_over:
            board.move(board.game.draw(board.env, rng))
        won += board.is_won
    assert won <= MOST_LUCK * TRIES


def test_its_doctor_finds_nothing_and_it_may_train() -> None:
    found = examine(WORLD, tasks=5)
    assert [one.words for one in found.checks if one.passed is not True] == []


def test_each_game_has_dice_of_its_own_and_leaves_pythons_alone() -> None:
    prompt, other = write_prompt("minesweeper", 7), write_prompt("minesweeper", 8)
    before = random.getstate()
    alone = begin(prompt)
    said = alone.move("[4 4]")  # where the mines lie is rolled now
    beside, between = begin(prompt), begin(other)
    between.move("[1 1]")
    assert beside.move("[4 4]") == said
    assert random.getstate() == before


def test_what_a_game_calls_its_reward_is_no_win_where_it_was_not_won() -> None:
    prompt = write_prompt("slitherlink", 3)
    board = begin(prompt)
    board.env.clues = [[1, None, None, None], *([None] * 4 for _ in range(3))]
    board.env.state.max_turns = 1
    for move in ("[h 0 0]", "[h 3 3]"):
        board.move(move)
    assert board.env.state.rewards == {0: 1.0}
    assert worth(board, prompt) == 0.0


def test_a_move_that_a_game_breaks_on_ends_it_and_wins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = write_prompt("sudoku", 3)
    board = begin(prompt)
    monkeypatch.setattr(board.env, "step", lambda action: action / 0)
    assert WORLD.act(board, write_move("[1 1 1]", 0), "").ends
    assert "could not read the move: TypeError" in board.why
    assert worth(board, prompt) == 0.0


def test_no_place_of_the_towers_is_trained_and_measured_on() -> None:
    def draw(numbers: Iterator[int]) -> set[str]:
        return {begin(write_prompt("tower-of-hanoi", number)).shown[0] for number in numbers}

    held_out = draw(iter(range(HELD_OUT_EVERY, 400, HELD_OUT_EVERY)))
    trained = draw(number for number in range(1, 150) if number % HELD_OUT_EVERY)
    assert len(held_out) > 10
    assert not held_out & trained


def test_each_game_is_a_benchmark_of_its_own_with_both_splits() -> None:
    for name in GAMES:
        entry = find_entry(f"games/{name}")
        held_out, train = (entry.list_items(split, count=3) for split in ("held_out", "train"))
        assert {one.category for one in (*held_out, *train)} == {name}
        assert all(WORLD.is_held_out(one.prompt) for one in held_out)
        assert not any(WORLD.is_held_out(one.prompt) for one in train)


def test_what_names_no_game_is_refused() -> None:
    for prompt in ("Play chess, game 3.", "Play sudoku, game 0.", "Play sudoku, game 1234567.", "sudoku"):
        with pytest.raises(ValueError, match="wanted Play NAME, game NUMBER"):
            WORLD.check_prompt(prompt)


def test_which_library_it_was_is_in_its_name() -> None:
    assert name_world(WORLD).startswith("games@1-0.7")


def test_who_imports_the_library_meets_no_empty_one() -> None:
    assert WORLD.find_obstacle() == ""
    WORLD.reset("Play sudoku, game 12.", 0)
    assert not [name for name in sys.modules if name.partition(".")[0] == "textarena"]


def test_another_version_of_the_library_is_no_obstacle_to_other_worlds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "textarena").mkdir()
    (tmp_path / "textarena" / "core.py").write_text("class Env: ...\n")
    monkeypatch.setattr(library, "_OURS", {})
    monkeypatch.setattr(library, "distribution", lambda name: SimpleNamespace(locate_file=tmp_path.joinpath))
    monkeypatch.setattr(library, "_find_package", library._find_package.__wrapped__)
    assert WORLD.find_obstacle() == "wants the package textarena 0.7"
    assert "textarena" not in sys.modules
