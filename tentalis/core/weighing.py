"""What items that weigh differently say together."""

import math
from collections.abc import Sequence
from operator import mul


def mean_weighted(values: Sequence[float], weights: Sequence[float]) -> float:
    """sum(w x) / sum(w), in the values' unit and between the least and the greatest of them."""
    found = math.fsum(map(mul, weights, values)) / math.fsum(weights)
    return min(max(found, min(values)), max(values))


def count_effective(weights: Sequence[float], squares: Sequence[float] = (), *, counts: Sequence[int] = ()) -> float:
    """How many items of equal weight say as much about the mean; N where all weigh the same, at least 0.

    Args:
        weights: (N,) above 0.
        squares: (N,) each item's squared distance from the weighted mean. Where heavy items lie further off than light
            ones, fewer say as much. (): by the weights alone.
        counts: (N,) how many items alike each of these stands for; (): itself.
    Source:
        With shares a = w / sum(w) and Q = sum(a^2): 1 / Q, Kish 1965, Survey Sampling, 11.7, which takes the items'
        spread as unrelated to their weights. With squares e^2 at most s^2 / V, as Korn and Graubard 1998 (Survey
        Methodology 24(2)) divide: s^2 = sum(a e^2) / (1 - Q) of one item, V = sum(a^2 e^2 / (1 - 2a + Q)) of the mean.
        Each e^2 is divided by what is expected of it where all spread alike, because a heavy item draws the mean to
        itself: the bias-reduced variance (HC2) of Bell and McCaffrey 2002, Survey Methodology 28(2), of a mean.
    Example:
        Weights 3 and 1 say as much as 1.6 items.
    """
    counts = counts or [1] * len(weights)
    if len(set(weights)) == 1:
        return float(sum(counts))
    whole = math.fsum(map(mul, counts, weights))
    shares = [weight / whole for weight in weights]
    concentration = math.fsum(count * share * share for count, share in zip(counts, shares, strict=True))
    if not any(squares):
        return 1 / concentration
    of_all = [count * share * square for count, share, square in zip(counts, shares, squares, strict=True)]
    of_mean = math.fsum(
        one * share / (1 - 2 * share + concentration) for one, share in zip(of_all, shares, strict=True)
    )
    return min(1 / concentration, math.fsum(of_all) / (1 - concentration) / of_mean)
