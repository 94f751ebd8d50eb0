"""Of several answers the one that the others agree with most is given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.answer_choice import GivenAnswer, choose_answer, draw_lot


def choose(*texts: str) -> int:
    return choose_of(*map(GivenAnswer, texts))


def choose_of(*answers: GivenAnswer) -> int:
    """The first one's lot is the highest."""
    return choose_answer(answers, lots=[bytes([255 - place]) for place in range(len(answers))]).place


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


def test_what_is_left_equal_is_decided_by_a_lot_that_a_conversation_keeps_and_that_favours_nobody() -> None:
    def find(number: int, *names: str) -> str:
        lots = [draw_lot(f"talk {number}", name) for name in names]
        return names[choose_answer([GivenAnswer(f"I am {name}") for name in names], lots=lots).place]

    chosen = [find(number, "ada", "bob") for number in range(1_000)]
    assert 450 < chosen.count("ada") < 550
    assert [find(number, "bob", "ada") for number in range(1_000)] == chosen, "the order has no say"
    three = [find(number, "ada", "bob", "eve") for number in range(1_000)]
    assert all(one in (two, "eve") for one, two in zip(three, chosen, strict=True)), "who is away changes nothing else"


def test_what_decided_is_told() -> None:
    def tell(*texts: str) -> str:
        return choose_answer([GivenAnswer(text) for text in texts], lots=[b""] * len(texts)).by

    assert tell("yes", "no") == tell("one", "two", "three") == tell("4", "4", "5", "5") == "lot"
    assert tell("4", "4.", "5") == tell("4", "4") == "votes"
    assert tell("the parcel is here", "the parcel is late", "the parcel comes late") == "words"
    assert tell("yes") == tell("", "yes") == "alone"


@pytest.mark.parametrize("worse", [GivenAnswer(""), GivenAnswer("It is 4 and", is_whole=False)])
def test_what_says_nothing_or_is_cut_off_stands_behind_what_is_whole(worse: GivenAnswer) -> None:
    assert choose_of(worse, worse, GivenAnswer("It is 5.")) == 2
    assert choose_of(worse, worse) == 0


def test_calls_are_the_same_whatever_their_spelling_and_the_words_beside_them() -> None:
    one = GivenAnswer("I shall look.", [("find", '{"order": 7, "deep": true}'), ("wait", "")])
    same = GivenAnswer("", [("wait", ""), ("find", '{"deep":true,"order":7}')])
    other = GivenAnswer("I shall look.", [("find", '{"order": 8, "deep": true}'), ("wait", "")])
    assert choose_of(other, one, same) == 1
    assert choose_of(GivenAnswer("", [("find", '{"order": Nan')]), one, same) == 1


def test_there_must_be_one() -> None:
    with pytest.raises(ValueError, match="wanted at least one answer and a lot for each, found 0"):
        choose_answer([], lots=[])


TEXTS = st.lists(st.sampled_from(["4", "It is 4.", "it is  4", "5", "", "of course it is 5"]), min_size=1, max_size=8)


@given(TEXTS)
def test_a_majority_of_whole_answers_is_never_outvoted(texts: list[str]) -> None:
    said = [text.casefold().replace(".", "").split() for text in texts]
    whole = [one for one in said if one]
    chosen = said[choose(*texts)]
    assert bool(chosen) == bool(whole)
    assert all(whole.count(one) <= whole.count(chosen) for one in whole)
