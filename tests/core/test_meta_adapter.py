"""Which audits a manager's adapter learns and is judged by, what each weighs, and when it is used."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.meta_adapter import (
    POLICY,
    AdapterVerdict,
    AuditedWord,
    judge_adapter,
    split_words,
    weigh_word,
    why_not_train,
)


def make_words(tasks: int, *, each: int = 2) -> list[AuditedWord]:
    """One good and one bad attempt a task; the manager approves everything."""
    return [
        AuditedWord(task * each + place, task, task * each + place, 1.0, float(place % 2))
        for task in range(tasks)
        for place in range(each)
    ]


def judge(candidate: Sequence[float], present: Sequence[float], *, past_rounds: int = 5) -> AdapterVerdict:
    truths = [float(place % 2) for place in range(len(candidate))]
    return judge_adapter(
        candidate=candidate, present=present, control=[0.5] * len(truths), truths=truths, past_rounds=past_rounds
    )


RIGHT = [float(place % 2) for place in range(40)]
WRONG = [1.0 - value for value in RIGHT]


def test_the_newest_tasks_are_held_out_whole() -> None:
    learnt, held_out = split_words(make_words(9))
    assert {word.task_id for word in learnt} == {0, 1, 2, 3, 4, 5}
    assert {word.task_id for word in held_out} == {6, 7, 8}


def test_what_the_world_reserves_is_never_learnt() -> None:
    words = [word._replace(is_reserved=word.task_id == 0) for word in make_words(9)]
    learnt, held_out = split_words(words)
    assert 0 in {word.task_id for word in held_out}
    assert len(learnt) + len(held_out) == len(words)
    assert all(not word.is_reserved for word in learnt)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=30))
def test_no_task_is_on_both_sides_and_none_is_lost(drawn: list[tuple[int, bool]]) -> None:
    words = [AuditedWord(number, task, number, 0.5, float(good)) for number, (task, good) in enumerate(drawn)]
    learnt, held_out = split_words(words)
    assert not {word.task_id for word in learnt} & {word.task_id for word in held_out}
    assert sorted([*learnt, *held_out]) == words


@pytest.mark.parametrize(
    ("said", "influence", "weight"),
    [(1.0, None, 1.0), (1.0, 0.4, 1.4), (0.0, 0.4, 0.6), (1.0, -0.4, 0.6), (0.0, -0.4, 1.4), (1.0, 2.0, 2.0)],
)
def test_right_and_of_use_counts_more_and_so_does_wrong_and_harmful(
    said: float, influence: float | None, weight: float
) -> None:
    """The truth is good: 1 + influence where it approved, 1 - influence where it did not, in [.5, 2]."""
    word = AuditedWord(1, 1, 1, said, 1.0, influence=influence)
    assert weigh_word(word) == pytest.approx(weight)


@given(st.floats(-2, 2), st.booleans())
def test_influence_never_turns_an_audit_round(influence: float, agreed: bool) -> None:
    word = AuditedWord(1, 1, 1, float(agreed), 1.0, influence=influence)
    assert POLICY.least_weight <= weigh_word(word) <= POLICY.most_weight


def test_too_few_audits_are_said_in_words() -> None:
    assert why_not_train(make_words(6)) == "wanted 8 good and as many bad audits held out, found 2 and 2"
    assert why_not_train([word for word in make_words(60) if word.is_good]).startswith("wanted 1 good and as many bad")
    assert why_not_train(make_words(24)) == ""


def test_one_that_orders_what_it_never_saw_is_used_and_counts() -> None:
    found = judge(RIGHT, [0.5] * 40)
    assert (found.applies, found.gate, found.control.value) == (True, 1.0, 0.5)
    assert found.words.startswith("better: AUC 1.00")


def test_one_that_is_worse_than_what_it_would_replace_is_refused() -> None:
    noisy = [value if place % 8 else 1.0 for place, value in enumerate(RIGHT)]
    found = judge(noisy, RIGHT)
    assert not found.applies
    assert found.words.startswith("not shown to be as good")
    assert found.gate == 1.0, "what serves keeps its own standing"


def test_a_tie_is_not_worse() -> None:
    found = judge(RIGHT, RIGHT)
    assert (found.applies, found.words[:9]) == (True, "not worse")


def test_a_coin_is_refused_whatever_it_replaces() -> None:
    rng = random.Random(1)
    found = judge([rng.random() for _ in RIGHT], WRONG)
    assert not found.applies
    assert found.words.startswith("not shown to be better than a coin")


def test_few_held_out_audits_are_no_proof() -> None:
    found = judge(RIGHT[:10], WRONG[:10])
    assert (found.applies, found.gate) == (False, 0.0)
    assert found.words == "wanted 8 good and as many bad audits it had not seen, found 5 and 5"


def test_in_its_first_round_its_word_counts_only_where_it_is_audited() -> None:
    found = judge(RIGHT, [0.5] * 40, past_rounds=0)
    assert (found.applies, found.gate) == (True, 0.0)
    assert found.words.endswith("its word counts only where it is audited for 2 rounds")
