"""How well scores order good before bad: the area under the ROC curve, and two scorers beside each other."""

import math
import random
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from tentalis.core.scoring.protocol import ScoringError

GOOD_FROM = 0.5
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


def area_under_curve(scores: Sequence[float], truths: Sequence[float]) -> float | None:
    """P(a good item scores above a bad one), ties counted half; None without items of both kinds.

    Args:
        truths: in [0, 1]; good from GOOD_FROM on.
    Raises:
        ScoringError: lengths differ, or a score is not finite.
    Source:
        Hanley and McNeil 1982, Radiology 143(1): the Mann-Whitney statistic over n_good * n_bad.
    """
    if len(scores) != len(truths):
        raise ScoringError(f"wanted a truth a score, found {len(scores)} scores and {len(truths)} truths")
    if not all(math.isfinite(score) for score in scores):
        raise ScoringError("scores: wanted finite numbers, found NaN or an infinity")
    pairs = sorted(zip(scores, (truth >= GOOD_FROM for truth in truths), strict=True))
    good_total = sum(is_good for _, is_good in pairs)
    bad_total = len(pairs) - good_total
    if not good_total or not bad_total:
        return None
    bad_below, won = 0, 0.0
    for _, tied in groupby(pairs, key=lambda pair: pair[0]):
        kinds = [is_good for _, is_good in tied]
        good, bad = sum(kinds), len(kinds) - sum(kinds)
        won += good * (bad_below + bad / 2)
        bad_below += bad
    return won / (good_total * bad_total)


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
