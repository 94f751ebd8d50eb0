"""How well scores order good before bad: the area under the ROC curve, and two scorers beside each other.

Two intervals are there: DeLong's for items that are alike (one rater's audits), the bootstrap over groups for items
that are alike within theirs (steps of one task).
"""

import math
import random
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import NamedTuple

from tentalis.core.scoring.calibration import APPROVES
from tentalis.core.scoring.protocol import ScoringError

GOOD_FROM = APPROVES
"""A truth of this much or more is good."""


class Scored(NamedTuple):
    """One held-out item two scorers spoke of.

    Args:
        group: what items are alike in (their task): groups are drawn, not items.
        truth: in [0, 1].
        candidate, reference: what the scorers said; any finite numbers, only their order counts.
    """

    group: Hashable
    truth: float
    candidate: float
    reference: float


@dataclass(frozen=True, kw_only=True)
class AucComparison:
    """Two scorers on the same items.

    Args:
        candidate, reference: their AUCs, in [0, 1].
        difference: candidate - reference; low, high: its interval at `confidence`.
        candidate_low: lower bound of the candidate's own AUC, at the same confidence.
        items, good: how many, and how many of them are good; groups: of how many tasks.
    """

    candidate: float
    reference: float
    difference: float
    low: float
    high: float
    candidate_low: float
    items: int
    good: int
    groups: int
    confidence: float


@dataclass(frozen=True)
class Auc:
    """How often a good item is scored above a bad one, ties half.

    Args:
        value: None where there is no good or no bad item.
        low, high: its interval; 0 and 1 where it is unknown.
    """

    value: float | None
    low: float
    high: float
    good: int
    bad: int

    @property
    def words(self) -> str:
        if self.value is None:
            return f"unknown ({self.good} good and {self.bad} bad audits)"
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Difference:
    """One number minus another, with its interval; None where one of them is unknown."""

    value: float | None
    low: float = -1.0
    high: float = 1.0


def area_under_curve(scores: Sequence[float], truths: Sequence[float]) -> float | None:
    """P(a good item scores above a bad one), ties counted half; None without items of both kinds.

    Args:
        truths: in [0, 1]; good from GOOD_FROM on.
    Raises:
        ScoringError: lengths differ, or a score is not finite.
    Source:
        Hanley and McNeil 1982, Radiology 143(1): the Mann-Whitney statistic over n_good * n_bad.
    """
    above, below = _place(scores, truths)
    return fmean(above) if above and below else None


def measure_auc(scores: Sequence[float], truths: Sequence[float], *, confidence: float = 0.9) -> Auc:
    """The area under the ROC curve, with its interval.

    Args:
        scores, truths: (N,) of the same items, as `area_under_curve` takes them.
    Raises:
        ScoringError: as `area_under_curve`.
    Source:
        DeLong, DeLong and Clarke-Pearson 1988, Biometrics 44(3): variance by placement values. Two pseudo-placements, 0
        and 1, are added on each side, so that a perfect order of few items has an interval wider than a point.
    """
    above, below = _place(scores, truths)
    if not above or not below:
        return Auc(None, 0.0, 1.0, len(above), len(below))
    value = fmean(above)
    spread = variance_of_mean([*above, 0.0, 1.0]) + variance_of_mean([*below, 0.0, 1.0])
    reach = reach_of(confidence) * math.sqrt(spread)
    return Auc(value, max(0.0, value - reach), min(1.0, value + reach), len(above), len(below))


def compare_aucs(
    scores: Sequence[float], others: Sequence[float], truths: Sequence[float], *, confidence: float = 0.9
) -> Difference:
    """AUC of `scores` minus AUC of `others` on the same items, with the interval of paired measurements.

    Source:
        DeLong et al. 1988, as in `measure_auc`; the pseudo-placements here are two differences, -1/2 and 1/2.
    """
    mine, theirs = _place(scores, truths), _place(others, truths)
    if not mine[0] or not mine[1]:
        return Difference(None)
    variance, value = 0.0, 0.0
    for one, other in zip(mine, theirs, strict=True):
        gaps = [left - right for left, right in zip(one, other, strict=True)]
        value = fmean(gaps)  # the same on both sides
        variance += variance_of_mean([*gaps, -0.5, 0.5])
    reach = reach_of(confidence) * math.sqrt(variance)
    return Difference(value, max(-1.0, value - reach), min(1.0, value + reach))


def variance_of_mean(values: Sequence[float]) -> float:
    """Of the mean of (N,) independent values, N > 1."""
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) * (len(values) - 1))


def reach_of(confidence: float) -> float:
    """Standard deviations to either side of a two-sided normal interval."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def compare_auc(
    items: Sequence[Scored], *, seed: int, confidence: float = 0.9, draws: int = 400
) -> AucComparison | None:
    """Paired bootstrap over groups of the difference of two AUCs; None where one is not defined.

    Both scorers are judged on the very same draws; draws without items of both kinds are left out.

    Raises:
        ScoringError: a confidence out of (0, 1), or no draw.
    Source:
        Efron and Tibshirani 1993, An Introduction to the Bootstrap, ch. 13 (percentile interval); groups are drawn
        whole because steps of one task are alike, Davison and Hinkley 1997, sec. 3.8.
    """
    if not 0.0 < confidence < 1.0 or draws < 1:
        raise ScoringError(f"wanted a confidence in (0, 1) and 1 draw or more, found {confidence!r} and {draws}")
    found = _areas(items)
    if found is None:
        return None
    groups: dict[Hashable, list[Scored]] = defaultdict(list)
    for item in items:
        groups[item.group].append(item)
    members = list(groups.values())
    rng = random.Random(seed)
    drawn = []
    for _ in range(draws):
        sample = [item for group in rng.choices(members, k=len(members)) for item in group]
        if (pair := _areas(sample)) is not None:
            drawn.append(pair)
    if not drawn:
        return None
    tail = (1.0 - confidence) / 2
    low, high = _quantiles([candidate - reference for candidate, reference in drawn], tail)
    return AucComparison(
        candidate=found[0],
        reference=found[1],
        difference=found[0] - found[1],
        low=low,
        high=high,
        candidate_low=_quantiles([candidate for candidate, _ in drawn], tail)[0],
        items=len(items),
        good=sum(item.truth >= GOOD_FROM for item in items),
        groups=len(members),
        confidence=confidence,
    )


def _areas(items: Sequence[Scored]) -> tuple[float, float] | None:
    truths = [item.truth for item in items]
    candidate = area_under_curve([item.candidate for item in items], truths)
    reference = area_under_curve([item.reference for item in items], truths)
    return None if candidate is None or reference is None else (candidate, reference)


def _quantiles(values: list[float], tail: float) -> tuple[float, float]:
    values.sort()
    return values[int(tail * (len(values) - 1))], values[math.ceil((1.0 - tail) * (len(values) - 1))]


def _place(scores: Sequence[float], truths: Sequence[float]) -> tuple[list[float], list[float]]:
    """Placement values: of each good item the share of bad ones below it, of each bad one the share of good above.

    Ties count half; where one of the sides is empty the other's are 1/2.
    """
    if len(scores) != len(truths):
        raise ScoringError(f"wanted a truth a score, found {len(scores)} scores and {len(truths)} truths")
    if not all(math.isfinite(score) for score in scores):
        raise ScoringError("scores: wanted finite numbers, found NaN or an infinity")
    kinds = [truth >= GOOD_FROM for truth in truths]
    good = [score for score, is_good in zip(scores, kinds, strict=True) if is_good]
    bad = [score for score, is_good in zip(scores, kinds, strict=True) if not is_good]
    return _share_below(good, bad), [1.0 - share for share in _share_below(bad, good)]


def _share_below(scores: Sequence[float], others: Sequence[float]) -> list[float]:
    """Of each score the share of the others that lie below it, ties half; 1/2 where there are no others."""
    if not others:
        return [0.5] * len(scores)
    ordered, size = sorted(others), 2 * len(others)
    return [(bisect_left(ordered, score) + bisect_right(ordered, score)) / size for score in scores]
