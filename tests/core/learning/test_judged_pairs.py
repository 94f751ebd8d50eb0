"""A judge's word is worth what people found of it: its error is corrected for, and widens the interval."""

import math
from functools import lru_cache

import numpy as np
import pytest

from tentalis.core.learning.gate import PairedComparison, compare_paired
from tentalis.core.learning.gate_course import GROWTH, KEPT_SHARE, Pairs
from tentalis.core.learning.judged_pairs import LEAST_JUDGED, Calibration, correct, count_agreement
from tentalis.core.learning.sequential import Looks
from tentalis.core.scoring.judging import join_orders

GOOD = Calibration(agreed=90, reversed=10)
MARGIN = 0.1


def compare(won: int, lost: int, *, confidence: float = 0.9) -> PairedComparison:
    said = [1.0] * won + [0.0] * lost
    return compare_paired(said, [1 - one for one in said], confidence=confidence)


def test_the_gain_is_divided_out_as_worked_by_hand() -> None:
    found = correct(compare(110, 90), GOOD)
    assert found.difference == pytest.approx(0.125)
    assert found.candidate == pytest.approx(0.5625)
    assert found.reference == pytest.approx(0.4375)
    assert found.candidate - found.reference == pytest.approx(found.difference)


def test_the_interval_solves_fiellers_equation_and_is_wider_than_one_that_trusts_the_gain() -> None:
    asked, gain = compare(110, 90), GOOD.measure_gain(0.9)
    found = correct(asked, GOOD)
    mine, kept = asked.difference * 200 / 202, gain.difference * 100 / 102
    z = 1.6448536269514722
    for end in (found.low, found.high):
        spread = asked.std**2 / 202 + end**2 * gain.std**2 / 102
        assert abs(mine - end * kept) == pytest.approx(z * math.sqrt(spread))
    assert found.high - found.low > (asked.high - asked.low) / kept
    assert found.low < found.difference < found.high


def test_the_other_side_sees_the_same_from_the_other_side() -> None:
    mine, theirs = correct(compare(130, 70), GOOD), correct(compare(70, 130), GOOD)
    assert theirs.low == pytest.approx(-mine.high)
    assert theirs.high == pytest.approx(-mine.low)


def test_a_better_known_judge_says_more_and_a_perfect_one_says_what_it_says() -> None:
    asked = compare(140, 60)
    few, many = correct(asked, GOOD), correct(asked, Calibration(agreed=9_000, reversed=1_000))
    perfect = correct(asked, Calibration(agreed=1_000_000))
    assert many.low > few.low
    assert perfect.low == pytest.approx(asked.low, abs=1e-3)


@pytest.mark.parametrize("judge", [Calibration(agreed=20, reversed=20), Calibration(agreed=10, reversed=30)])
def test_a_judge_that_guesses_or_reverses_says_nothing(judge: Calibration) -> None:
    found = correct(compare(190, 10), judge)
    assert (found.low, found.high) == (-1.0, 1.0)
    assert not judge.is_enough(0.9)


def test_a_judge_counts_once_people_judged_enough_pairs() -> None:
    almost = Calibration(agreed=LEAST_JUDGED - 1)
    assert (almost.missing, almost.is_enough(0.9)) == (1, False)
    assert Calibration(agreed=LEAST_JUDGED).is_enough(0.9)
    assert Calibration().error is None
    assert Calibration(agreed=8, reversed=1, ties=1).error == pytest.approx(0.15)


def test_only_what_both_orders_say_is_said() -> None:
    assert join_orders(1.0, 0.0) == 1.0
    assert join_orders(0.0, 1.0) == 0.0
    assert join_orders(1.0, 1.0) == join_orders(0.0, 0.0) == 0.5, "it takes the place, not the answer"
    assert join_orders(0.5, 0.5) == join_orders(1.0, 0.5) == 0.5


def test_pairs_that_people_find_equal_tell_nothing_of_a_judge() -> None:
    judged = [(1.0, 1.0), (0.0, 0.0), (1.0, 0.0), (0.5, 1.0), (1.0, 0.5), (0.5, 0.5)]
    assert count_agreement(judged) == Calibration(agreed=2, reversed=1, ties=1)


@lru_cache
def plan_looks(items: int) -> tuple[tuple[int, float], ...]:
    looks = Looks(items, confidence=0.9)
    counts = [min(max(math.ceil(items * KEPT_SHARE), 30), items)]
    while counts[-1] < items:
        counts.append(min(math.ceil(counts[-1] * GROWTH), items))
    return tuple((count, looks.look(count)) for count in counts)


def share_promoted(
    truth: float, *, items: int, judged: int, error: float, ties: float = 0.3, rounds: int = 1_000, seed: int = 7
) -> float:
    """Share of candidates of which people truly prefer so much, found good enough at any look, each with a judge that
    was calibrated anew."""
    rng, passed = np.random.default_rng(seed), 0
    better = (1 - ties + truth) / 2
    for _ in range(rounds):
        agreed = int(rng.binomial(judged, 1 - error))
        judge = Calibration(agreed=agreed, reversed=judged - agreed)
        people = rng.choice([1.0, 0.0, 0.5], items, p=[better, 1 - ties - better, ties])
        wrong = rng.random(items) < error
        said = np.where(people == 0.5, np.where(rng.random(items) < 0.5, 1.0, 0.0), np.where(wrong, 1 - people, people))
        for count, confidence in plan_looks(items):
            pairs = Pairs(mine=said[:count].tolist(), theirs=(1 - said[:count]).tolist(), judge=judge)
            found, _ = pairs.compare(confidence)
            if found.low > -MARGIN:
                passed += 1
                break
            if found.high < -MARGIN:
                break
    return passed / rounds


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("items", "judged", "error"), [(40, 30, 0.1), (100, 30, 0.1), (100, 100, 0.25), (300, 60, 0.1), (300, 200, 0.3)]
)
def test_of_candidates_that_are_just_too_bad_no_more_pass_than_stated(items: int, judged: int, error: float) -> None:
    """5 %, all looks together; three standard errors of 1,000 draws are 2 points."""
    assert share_promoted(-MARGIN, items=items, judged=judged, error=error) <= 0.07


def test_what_is_better_passes() -> None:
    assert share_promoted(0.25, items=300, judged=60, error=0.1, rounds=300) > 0.9
    assert share_promoted(-0.3, items=300, judged=60, error=0.1, rounds=300) == 0.0
