"""How far raters agree beyond chance. A figure that is not defined is None with the reason, never 0 or 1."""

import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from tentalis.core.scoring.protocol import ScoringError

Level = Literal["nominal", "ordinal", "interval", "ratio"]
Category = TypeVar("Category", bound=Hashable)
Unit = TypeVar("Unit")


@dataclass(frozen=True)
class Agreement:
    """A coefficient over `items` things that could be compared; `reason` says why `value` is None."""

    value: float | None
    items: int
    reason: str = ""


def raw_agreement(first: Sequence[Category | None], second: Sequence[Category | None]) -> Agreement:
    """Share of the items both rated on which they say the same, in [0, 1]; None marks a missing rating."""
    pairs = _paired(first, second)
    if not pairs:
        return Agreement(None, 0, "no item was rated by both")
    return Agreement(sum(left == right for left, right in pairs) / len(pairs), len(pairs))


def cohen_kappa(first: Sequence[Category | None], second: Sequence[Category | None]) -> Agreement:
    """Cohen's kappa of two raters over unordered categories, in [-1, 1]; items either did not rate are left out.

    Undefined when both used one and the same category only: chance alone explains everything.

    Raises:
        ScoringError: the raters' lists differ in length.
    Source:
        Cohen 1960, Educational and Psychological Measurement 20(1): (p_o - p_e) / (1 - p_e),
        here of the shares that differ.
    """
    pairs = _paired(first, second)
    size = len(pairs)
    if size == 0:
        return Agreement(None, 0, "no item was rated by both")
    lefts, rights = Counter(left for left, _ in pairs), Counter(right for _, right in pairs)
    observed = sum(left != right for left, right in pairs) / size
    expected = 1.0 - sum(count * rights[category] for category, count in lefts.items()) / (size * size)
    if expected == 0.0:
        return Agreement(None, size, f"both raters used only {pairs[0][0]!r}")
    return Agreement(1.0 - observed / expected, size)


def weighted_kappa(first: Sequence[float | None], second: Sequence[float | None]) -> Agreement:
    """Kappa of two raters over numbers, where a miss weighs by the square of its distance, in [-1, 1].

    Items either did not rate are left out. Undefined when both gave every item one and the same number.

    Raises:
        ScoringError: the raters' lists differ in length, or a rating is not finite.
    Source:
        Cohen 1968, Psychological Bulletin 70(4), with squared weights: 1 - mean squared difference of the pairs / that
        of all pairs of a rating of one with a rating of the other.
    """
    pairs = _paired(first, second)
    if not pairs:
        return Agreement(None, 0, "no item was rated by both")
    if any(not math.isfinite(value) for pair in pairs for value in pair):
        raise ScoringError("rating: wanted finite numbers, found NaN or an infinity")
    lefts, rights = (np.asarray(side, dtype=float) for side in zip(*pairs, strict=True))
    expected = float(lefts.var() + rights.var() + (lefts.mean() - rights.mean()) ** 2)
    if expected == 0.0:
        return Agreement(None, len(pairs), f"both raters used only {pairs[0][0]:g}")
    return Agreement(1.0 - float(np.mean((lefts - rights) ** 2)) / expected, len(pairs))


def bootstrap_interval(
    units: Sequence[Unit],
    measure: Callable[[Sequence[Unit]], Agreement],
    *,
    rng: random.Random,
    draws: int = 1_000,
    level: float = 0.95,
) -> tuple[float, float] | None:
    """Percentile bootstrap interval of a coefficient over units, which are drawn with replacement.

    Draws in which the coefficient is not defined are left out.

    Returns:
        (low, high); None where the coefficient itself, or more than half of the draws, is not defined.
    Raises:
        ScoringError: fewer than 1 draw, or a level out of (0, 1).
    Source:
        Efron and Tibshirani 1993, An Introduction to the Bootstrap, ch. 13; quantiles are order statistics.
    """
    if draws < 1 or not 0.0 < level < 1.0:
        raise ScoringError(f"bootstrap: wanted 1 draw or more and a level in (0, 1), found {draws} and {level!r}")
    if not units or measure(units).value is None:
        return None
    drawn = (measure(rng.choices(units, k=len(units))).value for _ in range(draws))
    values = sorted(value for value in drawn if value is not None)
    if 2 * len(values) <= draws:
        return None
    tail = (1.0 - level) / 2
    return values[int(tail * (len(values) - 1))], values[math.ceil((1.0 - tail) * (len(values) - 1))]


def krippendorff_alpha(units: Sequence[Sequence[float | None]], *, level: Level) -> Agreement:
    """Krippendorff's alpha for any number of raters, with missing ratings, <= 1.

    Undefined when fewer than two values can be paired, or all paired values are the same.

    Args:
        units: (U, raters) ratings of each unit; None where a rater did not rate it. A unit with one rating is left out.
            Nominal categories are any numbers; ordinal ones are ranked by their size; a ratio has a true zero.
    Raises:
        ScoringError: a rating is not finite, or a ratio is negative.
    Source:
        Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability": 1 - D_o / D_e over the coincidence matrix.
    """
    alike = Counter(tuple(sorted(float(value) for value in unit if value is not None)) for unit in units)
    for value in (value for unit in alike for value in unit):
        if not math.isfinite(value):
            raise ScoringError(f"rating: wanted a finite number, found {value!r}")
        if level == "ratio" and value < 0:
            raise ScoringError(f"rating: wanted 0 or more at the ratio level, found {value!r}")
    pairable = {unit: count for unit, count in alike.items() if len(unit) >= 2}
    items = sum(pairable.values())
    totals: Counter[float] = Counter()
    for unit, count in pairable.items():
        for value in unit:
            totals[value] += count
    size = sum(totals.values())
    if size == 0:
        return Agreement(None, 0, "no unit was rated twice")
    if len(totals) == 1:
        return Agreement(None, items, f"every paired rating is {next(iter(totals)):g}")
    distance = _distance(level, totals)
    observed = math.fsum(
        count * _paired_distance(Counter(unit), distance) / (len(unit) - 1) for unit, count in pairable.items()
    )
    expected = _paired_distance(totals, distance) / (size - 1)
    return Agreement(1.0 - observed / expected, items)


def spearman(first: Sequence[float | None], second: Sequence[float | None]) -> Agreement:
    """Spearman's rank correlation, in [-1, 1]; equal values share their mean rank; pairs with a gap are left out.

    Undefined for fewer than two pairs, or when one side gives every item the same value.

    Raises:
        ScoringError: the lists differ in length, or a value is not finite.
    """
    pairs = _paired(first, second)
    if any(not math.isfinite(value) for pair in pairs for value in pair):
        raise ScoringError("rating: wanted finite numbers, found NaN or an infinity")
    if len(pairs) < 2:
        return Agreement(None, len(pairs), "fewer than two items were rated by both")
    left, right = (_centred_mean_ranks(side) for side in zip(*pairs, strict=True))
    scale = math.sqrt(left @ left * (right @ right))
    if scale == 0.0:
        return Agreement(None, len(pairs), "one side gives every item the same value")
    return Agreement(min(1.0, max(-1.0, float(left @ right) / scale)), len(pairs))


def _paired(first: Sequence[Category | None], second: Sequence[Category | None]) -> list[tuple[Category, Category]]:
    if len(first) != len(second):
        raise ScoringError(f"two raters want as many ratings each, found {len(first)} and {len(second)}")
    return [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]


def _distance(level: Level, totals: Mapping[float, int]) -> Callable[[float, float], float]:
    """Krippendorff's squared difference of two values at a level of measurement."""
    if level == "nominal":
        return lambda left, right: float(left != right)
    if level == "interval":
        return lambda left, right: (left - right) ** 2
    if level == "ratio":
        return lambda left, right: ((left - right) / (left + right)) ** 2  # two different ones are not both 0
    middles: dict[float, float] = {}
    below = 0
    for value in sorted(totals):
        middles[value] = below + totals[value] / 2  # ranks from the middle of one value's run to the other's
        below += totals[value]
    return lambda left, right: (middles[left] - middles[right]) ** 2


def _paired_distance(counts: Mapping[float, int], distance: Callable[[float, float], float]) -> float:
    """Sum of the distance over all ordered pairs of different ratings with these counts."""
    return math.fsum(
        n_left * n_right * distance(left, right)
        for left, n_left in counts.items()
        for right, n_right in counts.items()
        if left != right
    )


def _centred_mean_ranks(values: Sequence[float]) -> NDArray[np.float64]:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - counts / 2)[places] - len(values) / 2
