"""Weighted paired comparisons: by hand, and what must not change."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.learning.gate import GateError, compare_paired, count_effective, mean_weighted
from tentalis.core.learning.gate_course import Pairs

SHARES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 10)), min_size=1, max_size=12)


def test_a_weighted_difference_worked_by_hand() -> None:
    found = compare_paired([1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [2.0, 1.0, 1.0], confidence=0.9)
    assert (found.candidate, found.reference, found.difference) == (0.75, 0.25, 0.5)
    centre = 1.5 / 5  # shares 3/2, 3/4, 3/4; two items more, whose squares sum to 1
    spread = (1.5 * (1 - centre)) ** 2 + 2 * (0.75 * centre) ** 2
    assert found.std == pytest.approx(math.sqrt((spread + 1 + 2 * centre**2) / 5))
    assert (found.low + found.high) / 2 == pytest.approx(centre)


@given(SHARES, st.floats(0.01, 100))
def test_only_the_ratios_of_weights_matter_and_equal_ones_change_nothing(
    items: list[tuple[float, float, float]], scale: float
) -> None:
    mine, theirs, weights = (list(side) for side in zip(*items, strict=True))
    plain, weighted = compare_paired(mine, theirs), compare_paired(mine, theirs, weights)
    assert compare_paired(mine, theirs, [scale] * len(mine)) == plain
    scaled = compare_paired(mine, theirs, [scale * weight for weight in weights])
    assert (scaled.difference, scaled.std) == pytest.approx((weighted.difference, weighted.std))
    turned = compare_paired(mine[::-1], theirs[::-1], weights[::-1])
    assert (turned.difference, turned.std) == pytest.approx((weighted.difference, weighted.std))


def test_an_interval_of_unequal_weights_covers_what_is_true_as_often_as_it_says() -> None:
    import random

    rng, hits, runs = random.Random(5), 0, 2_000
    for _ in range(runs):
        weights = [rng.choice([1.0, 1.0, 4.0]) for _ in range(60)]
        mine = [float(rng.random() < 0.7) for _ in weights]
        theirs = [float(rng.random() < 0.5) for _ in weights]
        found = compare_paired(mine, theirs, weights, confidence=0.9)
        hits += found.low <= 0.2 <= found.high
    assert 0.88 <= hits / runs <= 0.95


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, math.nan], [1.0, math.inf]])
def test_weights_that_are_none_are_refused(weights: list[float]) -> None:
    with pytest.raises(GateError, match="wanted 2 weights above 0"):
        compare_paired([1.0, 0.0], [0.0, 0.0], weights)


def test_weighted_means_and_how_many_items_they_stand_for() -> None:
    assert mean_weighted([1.0, 0.0], [3.0, 1.0]) == 0.75
    assert count_effective([1.0] * 4) == 4
    assert count_effective([3.0, 1.0]) == pytest.approx(1.6)


def test_pairs_keep_their_weights_when_cut_and_joined() -> None:
    pairs = Pairs(mine=[1, 0], theirs=[0, 0], weights=[4, 1])
    assert pairs.first(1).weights == [4]
    assert (pairs + Pairs(mine=[1], theirs=[1])).weights == [4, 1, 1.0]
    assert (Pairs(mine=[1], theirs=[1]) + Pairs()).weights == ()
    assert pairs.compare(0.9)[0].difference == 0.8
