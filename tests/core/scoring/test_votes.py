"""Votes: median, spread, quorum; an invalid vote is counted and stands for no number."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.scoring.protocol import Score, ScoringError, Unscored
from tentalis.core.scoring.votes import tally_votes


def test_five_votes_have_their_median_range_and_quartiles() -> None:
    tally = tally_votes([0.9, 0.1, 0.5, 0.6, 0.7])
    assert tally.value == 0.6
    assert tally.spread == pytest.approx(0.8)
    assert tally.iqr == pytest.approx(0.2)  # quartiles .5 and .7
    assert (tally.valid, tally.invalid, tally.cast) == (5, 0, 5)


def test_an_even_number_of_votes_takes_the_mean_of_the_middle_two() -> None:
    assert tally_votes([0.2, 0.4, 0.6, 1.0]).value == pytest.approx(0.5)


def test_invalid_votes_are_counted_by_reason_and_move_nothing() -> None:
    tally = tally_votes([0.9, Unscored("no JSON"), 0.8, Unscored("no JSON"), Unscored("timeout"), 0.9])
    assert tally.value == 0.9
    assert tally.invalid_reasons == {"no JSON": 2, "timeout": 1}
    assert (tally.valid, tally.cast) == (3, 6)


def test_without_a_quorum_the_thing_is_unscored_but_the_spread_is_kept() -> None:
    tally = tally_votes([0.9, Unscored("timeout"), Unscored("timeout")])
    assert tally.value == Unscored("1 of 3 votes valid, wanted at least half: 2 x timeout")
    assert tally.spread == 0.0


def test_no_vote_at_all_is_unscored() -> None:
    assert tally_votes([]).value == Unscored("no vote was cast")
    tally = tally_votes([Unscored("timeout")])
    assert isinstance(tally.value, Unscored)
    assert tally.spread is None
    assert tally.iqr is None


def test_one_vote_has_no_spread() -> None:
    tally = tally_votes([0.3])
    assert (tally.value, tally.spread, tally.iqr) == (0.3, 0.0, 0.0)


def test_a_vote_out_of_range_is_refused() -> None:
    with pytest.raises(ScoringError, match=r"vote 1: .* found nan"):
        tally_votes([0.5, float("nan")])


VOTES = st.lists(st.floats(0.0, 1.0) | st.just(Unscored("timeout")), max_size=12)


@given(VOTES)
def test_a_tally_does_not_depend_on_the_order_and_follows_the_quorum(votes: list[Score]) -> None:
    tally = tally_votes(votes)
    valid = [vote for vote in votes if not isinstance(vote, Unscored)]
    assert tally.cast == len(votes)
    if valid and len(valid) >= len(votes) - len(valid):
        assert tally.value == statistics.median(valid)
    else:
        assert isinstance(tally.value, Unscored)
    if tally.spread is not None and tally.iqr is not None:
        assert 0.0 <= tally.iqr <= tally.spread + 1e-12
    assert tally_votes(votes[::-1]) == tally
