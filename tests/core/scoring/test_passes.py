"""pass@k and pass^k against the definition: every choice of k tries, counted."""

from itertools import combinations

import pytest

from tentalis.core.scoring.passes import find_pass_at_k, find_pass_hat_k


@pytest.mark.parametrize("tries", [1, 2, 5, 7])
def test_both_are_the_share_of_all_choices(tries: int) -> None:
    for right in range(tries + 1):
        outcomes = [1] * right + [0] * (tries - right)
        for k in range(1, tries + 1):
            chosen = list(combinations(outcomes, k))
            assert find_pass_at_k(right=right, tries=tries, k=k) == pytest.approx(
                sum(map(any, chosen)) / len(chosen), abs=1e-12
            )
            assert find_pass_hat_k(right=right, tries=tries, k=k) == pytest.approx(
                sum(map(all, chosen)) / len(chosen), abs=1e-12
            )


def test_large_numbers_do_not_overflow() -> None:
    assert 0 < find_pass_at_k(right=3, tries=100_000, k=1_000) < 1


@pytest.mark.parametrize(
    ("right", "k", "words"), [(0, 0, "k: wanted 1 to 4"), (0, 5, "found 5"), (5, 1, "right: wanted")]
)
def test_impossible_counts_are_refused_by_name(right: int, k: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        find_pass_at_k(right=right, tries=4, k=k)
