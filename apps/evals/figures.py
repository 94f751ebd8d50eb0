"""What an evaluation's tries say beside their mean: how sure it is, what k tries would do, and what is not known."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from apps.evals.models import PASSED, Evaluation
from tentalis.core.learning.gate import mean_weighted, normalise_weights
from tentalis.core.scoring.passes import find_pass_at_k, find_pass_hat_k


class Passes(NamedTuple):
    """Of k tries at an item, one of those with as many outcomes: is one right in full, are all.

    Args:
        any, all: shares of `items`, in [0, 1], each item alike.
    """

    k: int
    items: int
    any: float
    all: float


class EvaluationFigures(NamedTuple):
    """Figures of what was tried so far.

    Args:
        mean: of the items' mean outcomes, as each weighs; None: nothing has an outcome.
        std_error: of that; the tries of an item are one cluster; None of less than two items.
        lowest, highest: what the mean were if all that is unscored were wrong, or right.
        passes: for each k that some item has outcomes for.
        causes: why there is no outcome -> how many tries.
    """

    items: int
    tries: int
    mean: float | None
    std_error: float | None
    lowest: float | None
    highest: float | None
    passes: Sequence[Passes]
    causes: Mapping[str, int]


def find_figures(evaluation: Evaluation) -> EvaluationFigures:
    """One query."""
    outcomes: dict[int, list[float | None]] = {}
    weights: dict[int, float] = {}
    causes: Counter[str] = Counter()
    rows = evaluation.item_tries.order_by("place", "number").values_list("place", "outcome", "weight", "cause")
    for place, outcome, weight, cause in rows:
        outcomes.setdefault(place, []).append(outcome)
        weights[place] = weight
        causes.update([cause] if cause else [])
    known = {place: [one for one in each if one is not None] for place, each in outcomes.items()}
    scored = {place: each for place, each in known.items() if each}
    means = {place: fmean(each) for place, each in scored.items()}
    return EvaluationFigures(
        items=len(scored),
        tries=sum(map(len, known.values())),
        mean=_mean(means, weights),
        std_error=_find_std_error(means, weights),
        lowest=_mean({place: fmean(one or 0.0 for one in each) for place, each in outcomes.items()}, weights),
        highest=_mean(
            {place: fmean(1.0 if one is None else one for one in each) for place, each in outcomes.items()}, weights
        ),
        passes=_list_passes(list(scored.values())),
        causes=dict(causes),
    )


def _mean(means: Mapping[int, float], weights: Mapping[int, float]) -> float | None:
    return mean_weighted(list(means.values()), [weights[place] for place in means]) if means else None


def _find_std_error(means: Mapping[int, float], weights: Mapping[int, float]) -> float | None:
    """Of a mean of clusters, linearised where they weigh differently, as `compare_paired` does.

    Source:
        Miller 2024, "Adding Error Bars to Evals", section 2.2: items with several tries are clusters.
    """
    count = len(means)
    if count < 2:
        return None
    shares = normalise_weights([weights[place] for place in means], items=count)
    centre = mean_weighted(list(means.values()), shares)
    squares = [(share * (mean - centre)) ** 2 for share, mean in zip(shares, means.values(), strict=True)]
    return math.sqrt(math.fsum(squares) / (count * (count - 1)))


def _list_passes(scored: Sequence[Sequence[float]]) -> list[Passes]:
    counts = [(sum(one >= PASSED for one in each), len(each)) for each in scored]
    found = []
    for k in range(1, max((tries for _, tries in counts), default=0) + 1):
        enough = [(right, tries) for right, tries in counts if tries >= k]
        found.append(
            Passes(
                k=k,
                items=len(enough),
                any=fmean(find_pass_at_k(right=right, tries=tries, k=k) for right, tries in enough),
                all=fmean(find_pass_hat_k(right=right, tries=tries, k=k) for right, tries in enough),
            )
        )
    return found
