"""Weighted paired comparisons: by hand, and what must not change."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.learning.gate import (
    AnchorOutcome,
    GateError,
    GatePolicy,
    compare_paired,
    judge_progress,
)
from tentalis.core.learning.gate_course import Pairs
from tentalis.core.learning.several_questions import find_p_value
from tentalis.core.weighing import count_effective, mean_weighted

SHARES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 10)), min_size=1, max_size=12)


def test_a_weighted_difference_worked_by_hand() -> None:
    found = compare_paired([1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [2.0, 1.0, 1.0], confidence=0.9)
    assert (found.candidate, found.reference, found.difference) == (0.75, 0.25, 0.5)
    # shares 1/2, 1/4, 1/4, so Q = 3/8 and e^2 = 1/4 each: s^2 = 1/4 / (5/8) = 2/5, and of the mean
    # V = (1/4 * 1/4) / (3/8) + 2 * (1/16 * 1/4) / (7/8) = 17/84: fewer than Kish's 8/3 say as much
    size = 2 / 5 / (17 / 84)
    assert found.effective_items == pytest.approx(size)
    centre = size * 0.5 / (size + 2)  # two items more, whose squares sum to 1
    assert found.std == pytest.approx(math.sqrt((size * 0.5 + 1) / (size + 2) - centre**2))
    assert found.centre == pytest.approx(centre)
    assert (found.low + found.high) / 2 == pytest.approx(centre)


def find_false_alarms(share: float, *, items: int = 20, heavy: float, light: float) -> float:
    """Chance, in exact numbers, that an interval at 95 % shows a difference between equals.

    Args:
        share: of all weight that the first item has; heavy, light: chance that it, or another, is right on one side.
    """
    others = items - 1
    weights = [share * others / (1 - share), *[1.0] * others]
    chances = {chance: chance * (1 - chance) for chance in (heavy, light)}  # of being right on one side alone
    found = 0.0
    for first in (-1, 0, 1):
        of_first = chances[heavy] if first else 1 - 2 * chances[heavy]
        for gained in range(others + 1):
            for lost in range(others + 1 - gained):
                same = others - gained - lost
                ways = math.comb(others, gained) * math.comb(others - gained, lost)
                chance = of_first * ways * chances[light] ** (gained + lost) * (1 - 2 * chances[light]) ** same
                if chance < 1e-7:
                    continue
                mine = [float(first > 0), *[1.0] * gained, *[0.0] * (lost + same)]
                theirs = [float(first < 0), *[0.0] * gained, *[1.0] * lost, *[0.0] * same]
                one = compare_paired(mine, theirs, weights, confidence=0.95)
                found += chance * (find_p_value(one) < 0.05)
    return found


@pytest.mark.parametrize(
    ("share", "heavy", "light"),
    [(0.5, 0.5, 0.5), (0.5, 0.5, 0.02), (0.35, 0.5, 0.5), (0.2, 0.5, 0.5), (0.2, 0.5, 0.02), (0.05, 0.5, 0.5)],
)
def test_equals_are_seldom_called_different_however_much_one_item_weighs(
    share: float, heavy: float, light: float
) -> None:
    """Where variances were linearised it was 16 % in the first case, 7 % in the third."""
    assert find_false_alarms(share, heavy=heavy, light=light) < 0.065


def test_what_weighs_as_few_items_says_that_it_cannot_be_told() -> None:
    outcomes = [1.0] * 6 + [0.0] * 14
    found = compare_paired(outcomes, [0.0] * 20, [19.0, *[1.0] * 19])
    assert found.effective_items == pytest.approx(2.38, abs=0.01)
    assert found.low < -0.1
    policy = GatePolicy()
    verdict = judge_progress(found, against="desk@v1", policy=policy, updates_since_anchor=1)
    assert verdict.outcome is AnchorOutcome.TOO_EARLY
    assert "with 20 tasks, which weigh as 2.4 equal ones do, no difference can be detected" in verdict.words


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
