"""Of several answers the one that the others agree with most is given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.answer_choice import GivenAnswer, choose_answer


def choose(*texts: str) -> int:
    return choose_answer([GivenAnswer(text) for text in texts])


def test_the_answer_that_most_say_is_given_and_the_first_who_said_it() -> None:
    assert choose("It is 5.", "It is 4.", "it is 4") == 1
    assert choose("Rome", "Paris", "paris!", "Rome.", "Rome ") == 0


def test_of_a_marked_answer_only_the_answer_counts() -> None:
    first, second = "Adding up. <answer>12</answer>", "I counted on my fingers. <answer>12</answer>"
    assert choose("Adding up. <answer>13</answer>", first, second) == 1


def test_where_no_two_say_the_same_the_one_nearest_to_all_others_is_given() -> None:
    """By hand: b shares {the, parcel, is} with a (3 of 5 words) and {the, parcel, late} with c (3 of 5): 1.2 together;
    a and c share {the, parcel} (2 of 6): 0.933 each."""
    assert choose("the parcel is here", "the parcel is late", "the parcel comes late") == 1


def test_what_is_left_equal_is_decided_by_the_order() -> None:
    assert choose("yes", "no") == 0
    assert choose("one", "two", "three") == 0


@pytest.mark.parametrize("worse", [GivenAnswer(""), GivenAnswer("It is 4 and", is_whole=False)])
def test_what_says_nothing_or_is_cut_off_stands_behind_what_is_whole(worse: GivenAnswer) -> None:
    assert choose_answer([worse, worse, GivenAnswer("It is 5.")]) == 2
    assert choose_answer([worse, worse]) == 0


def test_calls_are_the_same_whatever_their_spelling_and_the_words_beside_them() -> None:
    one = GivenAnswer("I shall look.", [("find", '{"order": 7, "deep": true}'), ("wait", "")])
    same = GivenAnswer("", [("wait", ""), ("find", '{"deep":true,"order":7}')])
    other = GivenAnswer("I shall look.", [("find", '{"order": 8, "deep": true}'), ("wait", "")])
    assert choose_answer([other, one, same]) == 1
    assert choose_answer([GivenAnswer("", [("find", '{"order": Nan')]), one, same]) == 1


def test_there_must_be_one() -> None:
    with pytest.raises(ValueError, match="found none"):
        choose_answer([])


TEXTS = st.lists(st.sampled_from(["4", "It is 4.", "it is  4", "5", "", "of course it is 5"]), min_size=1, max_size=8)


@given(TEXTS)
def test_a_majority_of_whole_answers_is_never_outvoted(texts: list[str]) -> None:
    said = [text.casefold().replace(".", "").split() for text in texts]
    whole = [one for one in said if one]
    chosen = said[choose(*texts)]
    assert bool(chosen) == bool(whole)
    assert all(whole.count(one) <= whole.count(chosen) for one in whole)
