"""Which items are tried next: by hand, and what holds for any history."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.learning.curriculum import SOLVED, UNSOLVED, CurriculumRule, ItemRound, choose_items, find_aside

RULE = CurriculumRule()
RIGHT, WRONG, MIXED, LOST = ItemRound(4, 4), ItemRound(4, 0), ItemRound(4, 1), ItemRound(0, 0)


@pytest.mark.parametrize(
    ("rounds", "why"),
    [
        ([], ""),
        ([MIXED], ""),
        ([RIGHT], SOLVED),
        ([RIGHT, MIXED], ""),
        ([WRONG], ""),
        ([WRONG, WRONG], UNSOLVED),
        ([WRONG, LOST, WRONG], UNSOLVED),
        ([WRONG, MIXED, WRONG], ""),
        ([LOST, LOST], ""),
    ],
)
def test_an_item_is_set_aside_that_is_solved_or_never_right(rounds: list[ItemRound], why: str) -> None:
    assert find_aside(rounds, RULE) == why


def test_a_round_is_half_new_and_half_what_is_right_sometimes() -> None:
    history: dict[int, list[ItemRound]] = {n: [] for n in range(10)}
    history |= {n: [MIXED] for n in range(10, 20)} | {20: [RIGHT], 21: [WRONG, WRONG]}
    choice = choose_items(history, count=8, rule=RULE, rng=Random(1))
    assert (choice.fresh, choice.mixed, choice.brought_back, choice.solved, choice.unsolved) == (4, 4, 0, 1, 1)
    assert choice == choose_items(history, count=8, rule=RULE, rng=Random(1))
    assert choice.items != choose_items(history, count=8, rule=RULE, rng=Random(2)).items


def test_what_was_set_aside_comes_back_where_nothing_else_is_left_the_solved_last() -> None:
    history = {1: [RIGHT], 2: [WRONG, WRONG], 3: [MIXED]}
    assert set(choose_items(history, count=2, rule=RULE, rng=Random(0)).items) == {2, 3}
    assert set(choose_items(history, count=9, rule=RULE, rng=Random(0)).items) == {1, 2, 3}


@given(
    st.dictionaries(
        st.integers(0, 99), st.lists(st.sampled_from([RIGHT, WRONG, MIXED, LOST]), max_size=4), max_size=30
    ),
    st.integers(1, 40),
)
def test_a_round_holds_each_item_once_and_as_many_as_there_are(history: dict[int, list[ItemRound]], count: int) -> None:
    choice = choose_items(history, count=count, rule=RULE, rng=Random(0))
    assert len(set(choice.items)) == len(choice.items) == min(count, len(history))
    assert choice.fresh + choice.mixed + choice.brought_back == len(choice.items)


def test_a_rule_that_sets_everything_aside_is_refused() -> None:
    with pytest.raises(ValueError, match="solved_rounds: wanted a whole number from 1 to 100, found 0"):
        CurriculumRule(solved_rounds=0)
