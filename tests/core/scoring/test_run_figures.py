"""Intervals of a run's mean: how often they hold the truth, by hand, and at their ends."""

import numpy as np
import pytest

from tentalis.core.scoring.calibration import wilson_interval
from tentalis.core.scoring.run_figures import ItemKind, SureMean, find_accuracy, find_mean, find_t


def mean_of(values: list[float], weights: list[float] | None = None) -> SureMean:
    """Of items that were tried once each."""
    weighed = zip(values, weights or [1.0] * len(values), strict=True)
    found = find_mean([ItemKind(1, weight, 1, 1, int(value == 1), value) for value, weight in weighed])
    assert found is not None
    return found


@pytest.mark.parametrize("items", [3, 5, 8, 20])
@pytest.mark.parametrize("heavy", [1.0, 4.0])
@pytest.mark.parametrize(("a", "b"), [(2.0, 2.0), (0.5, 0.5), (5.0, 1.0)], ids=["round", "hollow", "skewed"])
def test_a_mean_of_few_outcomes_has_an_interval_that_holds_the_truth(
    items: int, heavy: float, a: float, b: float
) -> None:
    """A bootstrap of as many held it in 55 to 93 of a hundred."""
    rng, runs, held = np.random.default_rng(items), 400, 0
    weights = [heavy if place % 3 == 0 else 1.0 for place in range(items)]
    for _ in range(runs):
        found = mean_of(rng.beta(a, b, items).tolist(), weights)
        held += found.low <= a / (a + b) <= found.high
    assert held >= 0.915 * runs  # three standard errors below 95 %


def test_outcomes_that_are_right_or_wrong_have_the_interval_of_their_share() -> None:
    kinds = [ItemKind(6, 1.0, 1, 1, 1, 1.0), ItemKind(2, 1.0, 1, 1, 0, 0.0)]
    found = find_mean(kinds)
    assert found == find_accuracy(kinds)
    assert found is not None
    assert (found.low, found.high) == wilson_interval(6, 8)[1:3]


def test_outcomes_between_have_as_many_tries_as_say_as_much() -> None:
    """Mean .5, se^2 = .04 / 3 / 4, so p (1 - p) / se^2 is 75, of which 3 degrees of freedom leave 29."""
    found = mean_of([0.4, 0.4, 0.6, 0.6])
    size = 0.25 / (0.04 / 3 / 4) * (1.959964 / find_t(3)) ** 2
    assert (found.low, found.high) == pytest.approx(wilson_interval(size / 2, size)[1:3])
    same = mean_of([0.7] * 5)
    assert (same.std_error, same.low, same.high) == (0.0, *wilson_interval(3.5, 5)[1:3])
    alone = mean_of([0.7])
    assert (alone.std_error, alone.low, alone.high) == (None, *wilson_interval(0.7, 1)[1:3])
