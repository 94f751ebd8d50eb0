"""Comparing two evaluations: by item, never by the order in which they were tried."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from apps.evals.errors import TooFewScoredError
from apps.evals.measuring import Measured
from apps.evals.models import Evaluation, ItemTry
from tentalis.core.learning.gate_course import Pairs

LEAST_SCORED = 0.9
"""Share of the items that both sides were tried on whose outcome must be known on both."""


def read_outcomes(evaluations: Iterable[Evaluation]) -> dict[int, dict[int, float]]:
    """Evaluation id -> item's key -> the mean outcome of its tries that have one, in the order of the items."""
    ids = [evaluation.pk for evaluation in evaluations]
    found: dict[int, dict[int, list[float]]] = {pk: {} for pk in ids}
    scored: Any = ItemTry.objects.filter(evaluation__in=ids, outcome__isnull=False).order_by(
        "evaluation", "place", "number"
    )
    for pk, key, outcome in scored.values_list("evaluation_id", "key", "outcome"):
        found[pk].setdefault(key, []).append(outcome)
    return {pk: {key: fmean(each) for key, each in items.items()} for pk, items in found.items()}


def pair(candidate: Mapping[int, float], reference: Mapping[int, float]) -> tuple[list[float], list[float]]:
    """What both say of the items that both have, in the candidate's order."""
    both = [key for key in candidate if key in reference]
    return [candidate[key] for key in both], [reference[key] for key in both]


def pair_first(candidate: Measured, reference: Measured, keys: Sequence[int]) -> Pairs:
    """What both say of these items.

    Raises:
        TooFewScoredError: too many of them have no outcome on one of the sides.
    """
    known = [key for key in keys if key in candidate.outcomes and key in reference.outcomes]
    if len(known) < LEAST_SCORED * len(keys):
        raise TooFewScoredError(_say_unscored([candidate, reference], wanted=len(keys), found=len(known)))
    return Pairs(
        mine=[candidate.outcomes[key] for key in known],
        theirs=[reference.outcomes[key] for key in known],
        my_steps=[candidate.step_scores[key] for key in known],
        their_steps=[reference.step_scores[key] for key in known],
    )


def _say_unscored(measured: Sequence[Measured], *, wanted: int, found: int) -> str:
    words = f"wanted outcomes of at least {LEAST_SCORED:.0%} of {wanted} tasks on both sides, found {found}"
    reasons = dict.fromkeys(row.reason for one in measured for row in one.tries.values() if row.reason)
    return f"{words}: {next(iter(reasons))}" if reasons else words
