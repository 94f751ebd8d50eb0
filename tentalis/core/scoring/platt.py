"""From a scorer's logit to a probability: a sigmoid fitted on held-out items whose truth is known."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tentalis.core.scoring.protocol import ScoringError
from tentalis.core.sigmoid import cross_entropy, sigmoid

FEWEST = 10
"""Items of either kind a curve is fitted on at least."""
_ROUNDS = 100
_SMALLEST_GAIN = 1e-10


@dataclass(frozen=True)
class PlattCurve:
    """P(good) = 1 / (1 + exp(-(slope * logit + offset)))."""

    slope: float
    offset: float

    def probability(self, logit: float) -> float:
        """In [0, 1], rising with the logit."""
        return float(sigmoid(self.slope * logit + self.offset))


def fit_platt(logits: Sequence[float], truths: Sequence[float]) -> PlattCurve:
    """Fit the curve by Newton's method with backtracking on the smoothed cross-entropy.

    Args:
        truths: in [0, 1]; good from 0.5 on.
    Raises:
        ScoringError: fewer than FEWEST good or bad items, a logit that is not finite, or logits that do not rise with
            the truth: no curve of ours turns such a scorer round.
    Source:
        Platt 1999, "Probabilistic outputs for SVMs", with the targets (n+ + 1)/(n+ + 2) and 1/(n- + 2); the iteration
        is that of Lin, Lin and Weng 2007, Machine Learning 68(3).
    """
    if len(logits) != len(truths):
        raise ScoringError(f"wanted a truth a logit, found {len(logits)} logits and {len(truths)} truths")
    if not all(math.isfinite(logit) for logit in logits):
        raise ScoringError("logits: wanted finite numbers, found NaN or an infinity")
    kinds = [truth >= 0.5 for truth in truths]
    good = sum(kinds)
    bad = len(kinds) - good
    if min(good, bad) < FEWEST:
        raise ScoringError(
            f"calibration wants {FEWEST} good and {FEWEST} bad held-out steps of known truth, found {good} and {bad}"
        )
    values = np.array(logits)
    targets = np.where(kinds, (good + 1) / (good + 2), 1 / (bad + 2))
    inputs = np.stack([values, np.ones_like(values)])  # (2, N)
    curve = np.array([0.0, math.log((good + 1) / (bad + 1))])  # slope, offset
    loss = cross_entropy(curve @ inputs, targets)
    for _ in range(_ROUNDS):
        chances = sigmoid(curve @ inputs)
        curvature = (inputs * np.maximum(chances * (1.0 - chances), 1e-12)) @ inputs.T + 1e-12 * np.eye(2)
        if np.linalg.det(curvature) <= 0.0:  # every logit alike: nothing to tell apart
            break
        step = np.linalg.solve(curvature, inputs @ (targets - chances))
        size = 1.0
        while (tried := cross_entropy((curve + size * step) @ inputs, targets)) >= loss and size > 1e-10:
            size /= 2
        if loss - tried <= _SMALLEST_GAIN:
            break
        curve, loss = curve + size * step, tried
    slope, offset = curve.tolist()
    if slope <= 0.0:
        raise ScoringError(f"the scorer's logits do not rise with the truth (slope {slope:.3g})")
    return PlattCurve(slope, offset)
