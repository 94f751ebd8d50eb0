"""Judgements in one word: what is asked, and what the two words' log-probs make of it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.scoring.protocol import ScoringError
from tentalis.core.scoring.verdicts import MAX_WORK_CHARS, ask_verdict, score_verdict


def test_the_score_is_the_probability_of_yes_among_the_two_words() -> None:
    """P(yes) .3, P(no) .1 of the whole vocabulary: .3 / .4 = .75."""
    assert score_verdict(math.log(0.3), math.log(0.1)) == pytest.approx(0.75)
    assert score_verdict(-3.0, -3.0) == 0.5


@given(st.floats(-1e4, 0), st.floats(-1e4, 0))
def test_the_words_changed_about_turn_the_score_round(yes: float, no: float) -> None:
    assert score_verdict(yes, no) + score_verdict(no, yes) == pytest.approx(1.0)
    assert 0.0 <= score_verdict(yes, no) <= 1.0


@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_what_is_no_log_prob_is_no_score(bad: float) -> None:
    with pytest.raises(ScoringError, match="wanted finite numbers"):
        score_verdict(bad, -1.0)


def test_the_rubric_comes_first_and_the_end_of_a_long_attempt_stays() -> None:
    asked = ask_verdict(prompt="Say hello.", text="x" * 30_000 + "END", rubric="Be kind.")
    content = asked.messages[-1]["content"]
    assert content.startswith("Rubric:\nBe kind.\n\nTask:\nSay hello.")
    assert content.endswith("END")
    assert content.count("x") == MAX_WORK_CHARS - 3
    assert "Rubric" not in ask_verdict(prompt="p", text="t").messages[-1]["content"]
