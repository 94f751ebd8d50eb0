"""Trust weights: by hand, against SciPy, and what they do to honest, biased and turning raters."""

import importlib
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.scoring.calibration import (
    POLICY,
    Confusion,
    ErrorTrack,
    Standing,
    approves,
    beta_cdf,
    mean_absolute_error,
    wilson_interval,
)
from tentalis.core.scoring.protocol import ScoringError

GOOD, BAD = 1.0, 0.0


def judge_items(
    rng: random.Random, items: int, *, false_approvals: float, false_rejections: float, bad: float = 0.5
) -> list[tuple[float, float]]:
    """(said, truth) of a rater with these error rates."""
    judged = []
    for _ in range(items):
        truth = BAD if rng.random() < bad else GOOD
        is_wrong = rng.random() < (false_approvals if truth == BAD else false_rejections)
        judged.append((1.0 - truth if is_wrong else truth, truth))
    return judged


def weigh(judged: list[tuple[float, float]], standing: Standing | None = None) -> list[float]:
    """The weight after each item, every item a sitting of its own."""
    standing = standing or Standing()
    weights = []
    for item in judged:
        standing, _ = standing.add([item])
        weights.append(standing.weight())
    return weights


def test_counts_and_rates_by_hand() -> None:
    judged = [(0.9, 1.0), (0.5, 0.0), (0.2, 0.0), (0.1, 0.0), (0.3, 1.0)]
    found = Confusion.of(judged)
    assert found == Confusion(true_approvals=1, false_approvals=1, true_rejections=2, false_rejections=1)
    assert found.false_approval_rate.value == pytest.approx(1 / 3)
    assert found.false_rejection_rate.value == 0.5
    assert found.accuracy[::3] == (0.6, 5)
    assert mean_absolute_error(judged) == pytest.approx((0.1 + 0.5 + 0.2 + 0.1 + 0.7) / 5)
    assert mean_absolute_error([]) is None


def test_wilson_interval_of_published_figures() -> None:
    # Newcombe 1998, Statistics in Medicine 17, table I: 81 of 263, and 0 of 20
    assert wilson_interval(81, 263)[1:3] == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson_interval(0, 20)[1:3] == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson_interval(0, 0) == (None, 0.0, 1.0, 0)


@given(st.integers(1, 400), st.data())
def test_wilson_interval_holds_the_share_and_stays_in_range(items: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, items))
    share, low, high, _ = wilson_interval(hits, items)
    assert share is not None
    assert 0.0 <= low <= share <= high <= 1.0


def test_beta_distribution_is_that_of_scipy() -> None:
    special: Any = importlib.import_module("scipy.special")
    rng = random.Random(5)
    for _ in range(500):
        x, a, b = rng.random(), rng.uniform(0.05, 60), rng.uniform(0.05, 400)
        assert beta_cdf(x, a, b) == pytest.approx(float(special.betainc(a, b, x)), abs=1e-12)
    assert beta_cdf(0.25, 1, 1) == pytest.approx(0.25)
    assert (beta_cdf(0.0, 2, 3), beta_cdf(1.0, 2, 3)) == (0.0, 1.0)


def test_an_unknown_rater_counts_fully_and_the_first_error_costs_little() -> None:
    assert Standing().weight() == 1.0
    assert 0.8 < weigh([(1.0, BAD)])[0] < 1.0


def test_the_weight_by_hand() -> None:
    # one error in one bad item, the prior one in twenty: f ~ Beta(2, 19), P(f <= .15) = 1 - .85^20 - 20 * .15 * .85^19
    within = 1 - 0.85**20 - 20 * 0.15 * 0.85**19
    assert weigh([(1.0, BAD)])[0] == pytest.approx(within / (1 - 0.85**19))


def test_a_judge_with_37_per_cent_false_approvals_falls_below_a_tenth_within_200_items() -> None:
    rng, reached, runs = random.Random(37), 0, 300
    for _ in range(runs):
        weights = weigh(judge_items(rng, 200, false_approvals=0.37, false_rejections=0.05))
        reached += min(weights) < POLICY.quarantine_below and weights[-1] < 0.25
    assert reached / runs >= 0.99


def test_a_rater_with_5_per_cent_errors_keeps_its_weight() -> None:
    rng = random.Random(5)
    last = [weigh(judge_items(rng, 200, false_approvals=0.05, false_rejections=0.05))[-1] for _ in range(300)]
    assert sum(weight > 0.8 for weight in last) / len(last) >= 0.99


@pytest.mark.thorough
@pytest.mark.parametrize(("error_rate", "most"), [(0.10, 0.03), (0.12, 0.1)])
def test_raters_within_the_tolerance_are_hardly_ever_quarantined(error_rate: float, most: float) -> None:
    """In a thousand items. With a detector that began at 8 % one of four at 12 % was."""
    rng, alarms, runs = random.Random(1), 0, 100
    for _ in range(runs):
        weights = weigh(judge_items(rng, 1_000, false_approvals=error_rate, false_rejections=error_rate))
        alarms += min(weights[POLICY.quarantine_items - 1 :]) < POLICY.quarantine_below
    assert alarms / runs <= most


def test_a_rater_who_rejects_good_work_loses_its_weight_too() -> None:
    assert weigh(judge_items(random.Random(2), 200, false_approvals=0.0, false_rejections=0.4))[-1] < 0.1


def test_a_rater_who_turns_is_found_within_60_items() -> None:
    rng, found, runs = random.Random(3), [], 100
    for _ in range(runs):
        standing = Standing()
        for item in judge_items(rng, 1_000, false_approvals=0.03, false_rejections=0.03):
            standing, _ = standing.add([item])
        assert standing.weight() > 0.9
        weights = weigh(judge_items(rng, 400, false_approvals=0.8, false_rejections=0.8), standing)
        found.append(next(place for place, weight in enumerate(weights) if weight < POLICY.quarantine_below))
    assert sorted(found)[95] <= 60


def test_a_rater_recovers_slowly() -> None:
    rng = random.Random(4)
    standing = Standing()
    for item in judge_items(rng, 200, false_approvals=0.37, false_rejections=0.05):
        standing, _ = standing.add([item])
    back = weigh(judge_items(rng, 1_200, false_approvals=0.02, false_rejections=0.02), standing)
    first = next(place for place, weight in enumerate(back) if weight > 0.5)
    assert 100 <= first <= 600
    assert back[-1] > 0.9


def test_the_drift_detector_rings_rarely_without_a_change_and_soon_after_one() -> None:
    rng = random.Random(6)
    rings = waits = 0
    for _ in range(300):
        track = ErrorTrack()
        for _ in range(200):
            track, rang = track.add(rng.random() < 0.05, size=1.0, policy=POLICY)
            rings += rang
        rang = False
        while not rang and waits < 300 * 200:
            track, rang = track.add(rng.random() < 0.4, size=1.0, policy=POLICY)
            waits += 1
    assert rings <= 3
    # Wald: log(10,000) over the mean log-likelihood ratio, .4 log(.35/.12) + .6 log(.65/.88), is 37 items
    assert waits / 300 == pytest.approx(37.4, rel=0.15)


def test_many_items_of_one_sitting_count_for_fewer() -> None:
    at_once, _ = Standing().add([(1.0, BAD)] * 8)
    one_by_one = weigh([(1.0, BAD)] * 8)[-1]
    assert at_once.weight() > 3 * one_by_one
    # eight items count as eight times 1 / 1.7, old ones fading by the way
    assert at_once.bad.items == pytest.approx(8 / 1.7, rel=0.02)


def test_a_standing_is_the_same_after_a_way_through_json() -> None:
    standing, _ = Standing().add(judge_items(random.Random(8), 50, false_approvals=0.3, false_rejections=0.2))
    assert Standing.from_json(standing.to_json()) == standing
    assert Standing.from_json({}) == Standing()
    with pytest.raises(ScoringError, match="wanted five numbers"):
        Standing.from_json({"bad": ["x"]})


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=40))
def test_weights_stay_in_range_and_an_error_never_raises_one(judged: list[tuple[float, float]]) -> None:
    standing, _ = Standing().add(judged)
    assert 0.0 <= standing.weight() <= 1.0
    for truth in (BAD, GOOD):
        wrong, _ = standing.add([(1.0 - truth, truth)])
        right, _ = standing.add([(truth, truth)])
        assert wrong.weight() <= right.weight() + 1e-12


def test_a_score_out_of_range_is_refused() -> None:
    assert (approves(0.5), approves(0.49)) == (True, False)
    with pytest.raises(ScoringError, match=r"wanted a number in \[0, 1\], found 1.5"):
        Standing().add([(1.5, 0.0)])
    with pytest.raises(ScoringError, match="found nan"):
        Confusion.of([(float("nan"), 0.0)])
    with pytest.raises(ScoringError, match="wanted 0 to 2, found 3"):
        wilson_interval(3, 2)
    with pytest.raises(ScoringError, match="wanted x"):
        beta_cdf(2.0, 1, 1)
