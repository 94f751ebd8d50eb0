"""From a scorer's logit to a probability: a sigmoid fitted on held-out items whose truth is known."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tentalis.core.scoring.protocol import ScoringError
from tentalis.core.sigmoid import sigmoid

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
        return sigmoid(self.slope * logit + self.offset)


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
    high, low = (good + 1) / (good + 2), 1 / (bad + 2)
    targets = [high if is_good else low for is_good in kinds]
    slope, offset = 0.0, math.log((good + 1) / (bad + 1))
    loss = _cross_entropy(logits, targets, slope, offset)
    for _ in range(_ROUNDS):
        found = [sigmoid(slope * logit + offset) for logit in logits]
        gaps = [target - p for target, p in zip(targets, found, strict=True)]
        curves = [max(p * (1 - p), 1e-12) for p in found]
        g_slope = math.fsum(gap * logit for gap, logit in zip(gaps, logits, strict=True))
        g_offset = math.fsum(gaps)
        h_slope = math.fsum(curve * logit * logit for curve, logit in zip(curves, logits, strict=True)) + 1e-12
        h_offset = math.fsum(curves) + 1e-12
        h_both = math.fsum(curve * logit for curve, logit in zip(curves, logits, strict=True))
        determinant = h_slope * h_offset - h_both * h_both
        if determinant <= 0.0:  # every logit alike: nothing to tell apart
            break
        d_slope = (h_offset * g_slope - h_both * g_offset) / determinant
        d_offset = (h_slope * g_offset - h_both * g_slope) / determinant
        size = 1.0
        while size > 1e-10:
            tried = _cross_entropy(logits, targets, slope + size * d_slope, offset + size * d_offset)
            if tried < loss:
                break
            size /= 2
        gain = loss - tried
        if gain <= _SMALLEST_GAIN:
            break
        slope, offset, loss = slope + size * d_slope, offset + size * d_offset, tried
    if slope <= 0.0:
        raise ScoringError(f"the scorer's logits do not rise with the truth (slope {slope:.3g})")
    return PlattCurve(slope, offset)


def _cross_entropy(logits: Sequence[float], targets: Sequence[float], slope: float, offset: float) -> float:
    total = []
    for logit, target in zip(logits, targets, strict=True):
        x = slope * logit + offset
        total.append(max(x, 0.0) - x * target + math.log1p(math.exp(-abs(x))))
    return math.fsum(total)
