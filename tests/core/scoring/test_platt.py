"""The calibration curve: a case worked by hand, its optimum, and what it refuses."""

import math
import random

import pytest

from tentalis.core.scoring.platt import PlattCurve, fit_platt
from tentalis.core.scoring.protocol import ScoringError


def test_two_logits_get_the_smoothed_shares_exactly() -> None:
    # Two free parameters, two distinct logits: the fit meets the mean target of each. At +1: 15 good, 5 bad.
    logits = [1.0] * 20 + [-1.0] * 20
    truths = [1.0] * 15 + [0.0] * 5 + [1.0] * 5 + [0.0] * 15
    curve = fit_platt(logits, truths)
    high, low = 21 / 22, 1 / 22
    wanted = (15 * high + 5 * low) / 20
    assert curve.probability(1.0) == pytest.approx(wanted, abs=1e-6)
    assert curve.probability(-1.0) == pytest.approx(1 - wanted, abs=1e-6)
    assert curve.offset == pytest.approx(0.0, abs=1e-6)


def test_the_curve_undoes_a_scorer_that_is_too_sure() -> None:
    rng = random.Random(0)
    logits = [rng.gauss(0, 1.5) for _ in range(4_000)]
    truths = [float(rng.random() < 1 / (1 + math.exp(-logit))) for logit in logits]
    curve = fit_platt([5 * logit + 2 for logit in logits], truths)
    assert curve.slope == pytest.approx(0.2, abs=0.02)
    assert curve.probability(2.0) == pytest.approx(0.5, abs=0.03)


def test_probabilities_are_safe_at_the_ends() -> None:
    curve = PlattCurve(1.0, 0.0)
    assert curve.probability(1e6) == pytest.approx(1.0)
    assert curve.probability(-1e6) == pytest.approx(0.0)


def test_a_scorer_that_is_upside_down_or_says_nothing_is_not_calibrated() -> None:
    truths = [1.0] * 20 + [0.0] * 20
    with pytest.raises(ScoringError, match="do not rise"):
        fit_platt([-1.0] * 20 + [1.0] * 20, truths)
    with pytest.raises(ScoringError, match="do not rise"):
        fit_platt([0.0] * 40, truths)


def test_too_few_items_of_one_kind_are_refused_with_their_number() -> None:
    with pytest.raises(ScoringError, match="found 9 and 40"):
        fit_platt([1.0] * 9 + [0.0] * 40, [1.0] * 9 + [0.0] * 40)
    with pytest.raises(ScoringError, match="finite"):
        fit_platt([math.inf], [1.0])
