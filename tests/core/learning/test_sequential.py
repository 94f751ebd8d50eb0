"""Looks at a growing comparison: their boundaries, their error over all looks, and when they stop."""

from statistics import NormalDist

import numpy as np
import pytest

from tentalis.core.learning.gate import GatePolicy, PairedComparison, compare_paired, foresee_bound
from tentalis.core.learning.sequential import (
    Looks,
    find_look_error,
    find_valid_p,
    find_valid_reach,
    foresee,
    spend_error,
)

FIFTHS = (0.2, 0.4, 0.6, 0.8, 1.0)


def test_boundaries_are_those_that_are_printed_for_five_looks_at_two_and_a_half_percent() -> None:
    """gsDesign(k=5, test.type=1, alpha=0.025, sfu=sfLDPocock): 2.4380 2.4268 2.4101 2.3966 2.3859."""
    found = [NormalDist().inv_cdf(1 - find_look_error(FIFTHS[:count], 0.025)) for count in range(1, 6)]
    assert found == pytest.approx([2.4380, 2.4268, 2.4101, 2.3966, 2.3859], abs=2e-3)


def test_one_look_at_everything_has_the_whole_error() -> None:
    assert find_look_error((1.0,), 0.05) == pytest.approx(0.05, abs=1e-4)
    assert spend_error(1.0, 0.05) == pytest.approx(0.05)


@pytest.mark.parametrize("shares", [(), (0.5, 0.5), (0.5, 0.2), (0.5, 1.1), (0.0, 1.0)])
def test_shares_that_do_not_rise_to_one_are_refused(shares: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="rise within"):
        find_look_error(shares, 0.05)


def test_the_same_number_of_items_is_the_same_look() -> None:
    looks = Looks(300, confidence=0.9)
    assert looks.look(100) == looks.look(100)
    assert looks.look(200) != looks.look(300)
    assert len(looks.shares) == 3


def test_looks_at_items_that_weigh_differently_err_together_as_rarely_as_planned() -> None:
    """The last fifth of the items weighs ten times as much. Shared by counts, 6 to 7 in 100 were wrong."""
    weights, counts = [1.0] * 64 + [10.0] * 16, (30, 45, 68, 80)
    looks = Looks(80, confidence=0.9)
    bounds = [NormalDist().inv_cdf((1 + looks.look(count, weights[:count])) / 2) for count in counts]
    drawn = np.random.default_rng(2).normal(size=(40_000, 80)) * weights
    ends = [count - 1 for count in counts]
    scores = drawn.cumsum(axis=1)[:, ends] / np.sqrt(np.cumsum(np.square(weights))[ends])
    assert (scores > bounds).any(axis=1).mean() == pytest.approx(0.05, abs=0.0035)  # three standard errors


def test_weights_that_are_all_alike_change_nothing() -> None:
    plain, weighed = Looks(300, confidence=0.9), Looks(300, confidence=0.9)
    for count in (100, 150, 300):
        assert weighed.look(count, [3.0] * count) == pytest.approx(plain.look(count), abs=1e-6)
    with pytest.raises(ValueError, match="2 looks want as much information each"):
        find_look_error((0.5, 1.0), 0.05, (2.0, 1.0))


def judge(rng: np.random.Generator, truth: float, looks: tuple[int, ...]) -> tuple[PairedComparison, PairedComparison]:
    """Candidate and reference of so different items as the gate sees, up to the first look that leaves out ±10."""
    chances = rng.beta(0.66, 0.54, looks[-1])
    shift = truth / (1 - 0.55) if truth >= 0 else truth / 0.55
    moved = chances + (1 - chances) * shift if truth >= 0 else chances * (1 + shift)
    mine = (rng.random(looks[-1]) < moved).astype(float).tolist()
    theirs = (rng.random(looks[-1]) < chances).astype(float).tolist()
    course = Looks(looks[-1], confidence=0.9)
    for count in looks:
        found = compare_paired(mine[:count], theirs[:count], confidence=course.look(count))
        if found.low > -0.1 or found.high < -0.1:
            break
    return found, compare_paired(mine, theirs, confidence=0.9)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("truth", "most_safe", "least_safe", "most_worse"),
    [(-0.1, 0.075, 0.0, 0.075), (0.03, 1.0, 0.97, 0.01), (-0.25, 0.01, 0.0, 1.0)],
)
def test_all_looks_together_err_as_rarely_as_planned(
    truth: float, most_safe: float, least_safe: float, most_worse: float
) -> None:
    """600 draws at 5 %: 7.5 % is three standard errors above."""
    rng, looks = np.random.default_rng(5), (100, 150, 200, 250, 300, 450)
    found = [judge(rng, truth, looks)[0] for _ in range(600)]
    safe = sum(one.low > -0.1 for one in found) / len(found)
    worse = sum(one.high < -0.1 for one in found) / len(found)
    assert least_safe <= safe <= most_safe
    assert worse <= most_worse
    if truth == -0.25:
        assert worse > 0.97
    if truth != -0.1:
        assert sorted(one.items for one in found)[len(found) // 2] <= 150, "what is clear stops early"


@pytest.mark.parametrize("variance", [1e-4, 0.004, 0.1])
def test_what_just_reaches_a_valid_interval_has_its_error_as_p(variance: float) -> None:
    assert find_valid_p(-find_valid_reach(variance, alpha=0.02), variance=variance) == pytest.approx(0.02)
    assert find_valid_p(0.0, variance=variance) == 1.0


def test_what_is_foreseen_is_as_likely_as_it_is_said_to_be() -> None:
    """A flat prior on the truth: of estimates that are foreseen above the bar with a chance of p, a share of p is."""
    rng = np.random.default_rng(3)
    truths = rng.uniform(-0.5, 0.5, 20_000)
    now = truths + rng.normal(0, 0.06, truths.size)
    later = truths + rng.normal(0, 0.04, truths.size)
    final = (now / 0.06**2 + later / 0.04**2) / (1 / 0.06**2 + 1 / 0.04**2)
    then = (1 / 0.06**2 + 1 / 0.04**2) ** -0.5
    said = np.array([foresee(one, error=0.06, error_then=then, bar=0.1) for one in now.tolist()])
    for low, high in ((0.05, 0.2), (0.4, 0.6), (0.8, 0.95)):
        inside = (said > low) & (said < high)
        assert (final[inside] > 0.1).mean() == pytest.approx(said[inside].mean(), abs=0.05)


def test_where_nothing_more_comes_the_estimate_decides() -> None:
    assert (foresee(0.2, error=0.1, error_then=0.1, bar=0.1), foresee(0.0, error=0.1, error_then=0.1, bar=0.1)) == (
        1,
        0,
    )


def test_a_bound_is_foreseen_from_both_sides() -> None:
    worse = compare_paired([0.0] * 20 + [1.0] * 20, [1.0] * 40)
    assert foresee_bound(worse, items=100, below=-0.1) > 0.99
    assert foresee_bound(worse.swapped, items=100, below=0.0) < 0.01
    assert (worse.swapped.low, worse.swapped.high) == (-worse.high, -worse.low)
    assert GatePolicy().fresh_size == 300
