"""What is uncertain or disputed comes first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.review_priority import find_priority

SHARES = st.none() | st.floats(0, 1)


@pytest.mark.parametrize(
    ("score", "votes", "attempts", "wanted"),
    [
        (0.5, None, None, 0.5),  # u = 1, d = 0
        (1.0, None, 0.0, 0.0),
        (0.75, 0.2, 0.6, 0.55),  # u = 0.5, d = 0.6
        (None, 1.0, None, 1.0),
        (0.0, 1.0, 0.0, 0.5),
    ],
)
def test_priority_by_hand(score: float | None, votes: float | None, attempts: float | None, wanted: float) -> None:
    assert find_priority(score=score, vote_spread=votes, attempt_spread=attempts) == pytest.approx(wanted)


@given(SHARES, SHARES, SHARES)
def test_priority_is_a_share_and_grows_with_disagreement(
    score: float | None, votes: float | None, attempts: float | None
) -> None:
    found = find_priority(score=score, vote_spread=votes, attempt_spread=attempts)
    assert 0 <= found <= 1
    assert find_priority(score=score, vote_spread=1.0, attempt_spread=attempts) >= found
    assert find_priority(score=None, vote_spread=votes, attempt_spread=attempts) >= found


def test_what_is_no_share_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"vote_spread: wanted a number from 0 to 1, found 1\.5"):
        find_priority(score=0.5, vote_spread=1.5, attempt_spread=None)
