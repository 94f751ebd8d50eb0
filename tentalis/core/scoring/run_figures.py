"""What a run's outcomes say: how sure its accuracy and its mean are, and what k tries would do.

Items that came out alike are told together (`ItemKind`), so that a run of a hundred thousand is a few of them.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final, NamedTuple

from tentalis.core.scoring.calibration import wilson_interval
from tentalis.core.scoring.passes import find_pass_at_k, find_pass_hat_k
from tentalis.core.weighing import count_effective, mean_weighted

Z_95: Final = NormalDist().inv_cdf(0.975)


class ItemKind(NamedTuple):
    """Items that came out alike.

    Args:
        items: how many there are; weight: of each.
        tries: that were made of each; scored: those of them with an outcome; right: those right in full.
        total: sum of the outcomes of each.
    """

    items: int
    weight: float
    tries: int
    scored: int
    right: int
    total: float


class SureMean(NamedTuple):
    """A mean over items, each as it weighs, with its interval at 95 %.

    Args:
        items: with an outcome.
        std_error: the tries of an item are one cluster; None of less than two items.
    """

    items: int
    value: float
    std_error: float | None
    low: float
    high: float


class Passes(NamedTuple):
    """Of k tries at an item, one of those with as many outcomes: is one right in full, are all.

    Args:
        any, all: shares of `items`, in [0, 1], each item alike.
    """

    k: int
    items: int
    any: float
    all: float


def find_accuracy(kinds: Sequence[ItemKind]) -> SureMean | None:
    """Share of tries right in full, with its interval; None of nothing."""
    scored = [one for one in kinds if one.scored]
    tries = sum(one.items * one.scored for one in scored)
    return _find_sure(scored, [one.right / one.scored for one in scored], most=tries) if scored else None


def find_mean(kinds: Sequence[ItemKind]) -> SureMean | None:
    """The mean outcome, with its interval; None of nothing."""
    scored = [one for one in kinds if one.scored]
    return _find_sure(scored, [one.total / one.scored for one in scored], most=math.inf) if scored else None


def find_bounds(kinds: Sequence[ItemKind]) -> tuple[float, float] | None:
    """The mean if all that is unscored were wrong, and if it were right; None of nothing."""
    if not kinds:
        return None
    weight = math.fsum(one.items * one.weight for one in kinds)
    lowest = math.fsum(one.items * one.weight * one.total / one.tries for one in kinds) / weight
    lost = math.fsum(one.items * one.weight * (one.tries - one.scored) / one.tries for one in kinds) / weight
    return lowest, min(1.0, lowest + lost)


def list_passes(kinds: Sequence[ItemKind]) -> list[Passes]:
    """For each k that some item has as many outcomes for."""
    found = []
    for k in range(1, max((one.scored for one in kinds), default=0) + 1):
        enough = [one for one in kinds if one.scored >= k]
        items = sum(one.items for one in enough)
        some, every = (
            math.fsum(one.items * find(right=one.right, tries=one.scored, k=k) for one in enough) / items
            for find in (find_pass_at_k, find_pass_hat_k)
        )
        found.append(Passes(k, items, some, every))
    return found


def find_t(freedom: float) -> float:
    """The 97.5 % point of Student's t.

    Source:
        Expansion about the normal, Abramowitz and Stegun 26.7.5; within .001 from 5 degrees of freedom on.
    """
    if freedom < 1:
        return math.inf
    z, n = Z_95, freedom
    terms = (
        (z**3 + z) / (4 * n),
        (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2),
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3),
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4),
    )
    return z + math.fsum(terms)


def _find_sure(kinds: Sequence[ItemKind], values: Sequence[float], *, most: float) -> SureMean:
    """The mean of the items' values, in [0, 1], with Wilson's interval over as many tries as say as much.

    Args:
        most: tries it may say as much as.
    Source:
        Wilson 1927, JASA 22(158). Where items are clusters of several tries, outcomes lie between 0 and 1, or items
        weigh differently, with the effective number p (1 - p) / se^2 in place of n, corrected for the degrees of
        freedom of se (Korn and Graubard 1998, Survey Methodology 24(2)): as many items as say as much, less one; with
        no disagreement between items, the number of items. How often it holds the truth: ADR 182.
    """
    found, freedom = _find_mean(kinds, values)
    size = float(found.items)
    is_plain = (
        all(one.scored == 1 for one in kinds) and set(values) <= {0.0, 1.0} and len({one.weight for one in kinds}) == 1
    )
    if not is_plain and found.std_error:
        variance = found.value * (1 - found.value)
        size = min(variance / found.std_error**2 * (Z_95 / find_t(freedom)) ** 2, most)
    low, high = wilson_interval(min(found.value * size, size), size)[1:3] if size else (0.0, 1.0)
    return found._replace(low=low, high=high)


def _find_mean(kinds: Sequence[ItemKind], values: Sequence[float]) -> tuple[SureMean, float]:
    """Mean and error of the items' values, and the degrees of freedom of the error.

    Source:
        Miller 2024, "Adding Error Bars to Evals", section 2.2; where items weigh differently, the spread of one over as
        many as say as much, as `compare_paired` does.
    """
    counts, weights = [one.items for one in kinds], [one.weight for one in kinds]
    items, of_kinds = sum(counts), [one.items * one.weight for one in kinds]
    mean = mean_weighted(values, of_kinds)
    if items == 1:
        return SureMean(items, mean, None, 0.0, 1.0), 0.0
    squares = [(value - mean) ** 2 for value in values]
    of_one = mean_weighted(squares, of_kinds) / (1 - 1 / count_effective(weights, counts=counts))
    size = count_effective(weights, squares, counts=counts)
    return SureMean(items, mean, math.sqrt(of_one / size), 0.0, 1.0), size - 1
