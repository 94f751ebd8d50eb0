"""How held-out pairs are ordered: the test against SciPy, what is said for sure, and how often that is wrong."""

import importlib
from typing import Any

import numpy as np
import pytest

from tentalis.core.learning.pair_order import LEVEL, PairOrder, find_order, find_signed_rank_p


def order(margins: list[float]) -> PairOrder:
    """One pair a task."""
    found = find_order({place: [margin] for place, margin in enumerate(margins)})
    assert found is not None
    return found


def test_signed_ranks_are_those_of_scipy() -> None:
    stats: Any = importlib.import_module("scipy.stats")
    rng = np.random.default_rng(1)
    for size in (1, 5, 6, 8, 30, 150):
        values = rng.normal(0.4, 1, size)
        assert find_signed_rank_p(values.tolist()) == pytest.approx(stats.wilcoxon(values, method="exact").pvalue)
    many = rng.normal(0.1, 1, 300)
    assert find_signed_rank_p(many.tolist()) == pytest.approx(stats.wilcoxon(many, method="exact").pvalue, abs=2e-3)
    assert find_signed_rank_p([]) == find_signed_rank_p([0.0, 0.0]) == 1.0


def test_equal_sizes_share_their_ranks() -> None:
    """Of 2, 2 and 1 the ranks are 2.5, 2.5 and 1: sums of at least 5 are 5 and 6, two of eight, and as many below."""
    assert find_signed_rank_p([2.0, 2.0, -1.0]) == 0.5


@pytest.mark.parametrize(
    ("margins", "words", "fault"),
    [
        ([1.0] * 8, "better than before, on 8 tasks (p 0.0078)", ""),
        ([1.0] * 5 + [-1.0, -2.0, -3.0], "cannot be told with 8 tasks (p 1)", ""),
        ([0.5, 0.25], "cannot be told with 2 tasks, 6 can at best (p 0.5)", ""),
        ([-1.0] * 2, "cannot be told with 2 tasks, 6 can at best (p 0.5)", ""),
        ([1.0] + [-1.0] * 7, "cannot be told with 8 tasks (p 0.07)", "12.5% [2.2, 47.1] of the 8 held-out pairs"),
        ([0.5] * 4 + [-3.0] * 8, "worse than before, on 12 tasks (p 0.0", "gained −1.83 nats on the other: worse"),
    ],
)
def test_what_is_shown_is_told_apart_from_what_cannot_be_told(margins: list[float], words: str, fault: str) -> None:
    found = order(margins)
    assert words in found.words
    told = found.find_fault(least=0.6)
    assert fault in told
    assert bool(told) is bool(fault)


def test_pairs_of_one_task_are_one_cluster() -> None:
    """Forty pairs of four tasks, all ordered wrong, are four observations."""
    found = find_order({task: [-1.0] * 10 for task in range(4)})
    assert found is not None
    assert (found.pairs, found.tasks, found.accuracy, found.p) == (40, 4, 0.0, 0.125)
    assert found.high == order([-1.0] * 4).high
    assert found.describe()["held_out_pair_high"] == found.high
    assert find_order({}) is None


@pytest.mark.parametrize("tasks", [4, 8, 20])
def test_who_orders_as_many_right_as_is_wanted_is_hardly_ever_refused(tasks: int) -> None:
    """By the share alone, half of them were. Who orders nearly all wrong is, and by chance hardly one is praised."""
    rng, runs = np.random.default_rng(tasks), 500
    at_bar = [order(one) for one in rng.normal(0.2533, 1, (runs, tasks)).tolist()]
    assert sum(bool(one.find_fault(least=0.6)) for one in at_bar) <= 0.07 * runs
    by_chance = [order(one) for one in rng.standard_t(3, (runs, tasks)).tolist()]
    assert sum(one.p <= LEVEL and one.margin > 0 for one in by_chance) <= 0.045 * runs
    broken = [order(one) for one in rng.normal(-2, 1, (200, tasks)).tolist()]
    assert sum(bool(one.find_fault(least=0.6)) for one in broken) >= 0.85 * 200
