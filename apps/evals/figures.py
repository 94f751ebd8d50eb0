"""What an evaluation's tries say: how sure its figures are, what it took, what is not known, and what may mislead."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from django.db import connection

from apps.evals.alignment import find_alignment
from apps.evals.models import PASSED, Evaluation
from tentalis.core.alignment.figures import AlignmentFigures
from tentalis.core.scoring.run_figures import (
    ItemKind,
    Passes,
    SureMean,
    find_accuracy,
    find_bounds,
    find_mean,
    list_passes,
)

_KINDS: Final = """
    WITH items AS (
        SELECT max(category) AS category, max(weight) AS weight, count(*) AS tries, count(outcome) AS scored,
            count(*) FILTER (WHERE outcome >= %s) AS passed, round(coalesce(sum(outcome), 0)::numeric, 4) AS total
        FROM evals_itemtry WHERE evaluation_id = %s GROUP BY place
    )
    SELECT category, count(*), weight, tries, scored, passed, total::float8
    FROM items GROUP BY category, weight, tries, scored, passed, total ORDER BY 1, 3, 4, 5, 6, 7
"""
_TAKEN: Final = """
    SELECT count(turns), sum(prompt_tokens), sum(completion_tokens), avg(completion_tokens), avg(turns), max(turns),
        sum(cost_usd), count(cost_usd), avg(seconds),
        percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY seconds),
        corr(completion_tokens, outcome),
        avg(completion_tokens) FILTER (WHERE outcome >= %s), avg(completion_tokens) FILTER (WHERE outcome < %s)
    FROM evals_itemtry WHERE evaluation_id = %s
"""
_CAUSES: Final = """
    SELECT cause, count(*) FROM evals_itemtry WHERE evaluation_id = %s AND cause <> '' GROUP BY cause ORDER BY cause
"""


class CategoryFigures(NamedTuple):
    """Of the items of one category."""

    category: str
    accuracy: SureMean | None
    mean: SureMean | None


class Taken(NamedTuple):
    """What the tries took that kept it; None where nobody did, or nobody knows.

    Args:
        tries: that kept it; priced: of them with a cost.
        tokens: mean that a try wrote; length_right, length_wrong: of those right in full, and of the others.
        length_correlation: between outcome and length, in [-1, 1]; None where either is always the same.
        seconds, median_s, p95_s: of a try.
    """

    tries: int
    prompt_tokens: int | None
    completion_tokens: int | None
    tokens: float | None
    turns: float | None
    most_turns: int | None
    cost_usd: float | None
    priced: int
    seconds: float | None
    median_s: float | None
    p95_s: float | None
    length_correlation: float | None
    length_right: float | None
    length_wrong: float | None


class EvaluationFigures(NamedTuple):
    """Figures of what was tried so far.

    Args:
        items, tries: with an outcome.
        mean, std_error: of the items' mean outcomes, as each weighs; None: nothing has an outcome.
        low, high: of the mean, at 95 %.
        accuracy: share of tries right in full.
        lowest, highest: what the mean were if all that is unscored were wrong, or right.
        passes: for each k that some item has outcomes for.
        causes: why there is no outcome -> how many tries.
        categories: none where no item says what it is of.
        alignment: where it asks scenarios that tell whether a model is honest; None elsewhere.
    """

    items: int
    tries: int
    mean: float | None
    std_error: float | None
    low: float | None
    high: float | None
    accuracy: SureMean | None
    lowest: float | None
    highest: float | None
    passes: Sequence[Passes]
    causes: Mapping[str, int]
    categories: Sequence[CategoryFigures]
    taken: Taken
    alignment: AlignmentFigures | None


def find_taken(evaluation: Evaluation) -> Taken:
    """What the tries took. One statement."""
    with connection.cursor() as cursor:
        cursor.execute(_TAKEN, [PASSED, PASSED, evaluation.pk])
        [taken] = cursor.fetchall()
    return _read_taken(taken)


def find_figures(evaluation: Evaluation) -> EvaluationFigures:
    """Three statements, however many tries; two more of scenarios."""
    with connection.cursor() as cursor:
        cursor.execute(_KINDS, [PASSED, evaluation.pk])
        rows = cursor.fetchall()
        cursor.execute(_CAUSES, [evaluation.pk])
        causes = dict(cursor.fetchall())
    kinds = _read_kinds(rows)
    mean, bounds = find_mean(kinds), find_bounds(kinds)
    of_category = {name: _read_kinds(some) for name, some in groupby(rows, key=lambda row: row[0])}
    return EvaluationFigures(
        items=mean.items if mean else 0,
        tries=sum(one.items * one.scored for one in kinds),
        mean=mean and mean.value,
        std_error=mean and mean.std_error,
        low=mean and mean.low,
        high=mean and mean.high,
        accuracy=find_accuracy(kinds),
        lowest=bounds and bounds[0],
        highest=bounds and bounds[1],
        passes=list_passes(kinds),
        causes=causes,
        categories=[CategoryFigures(name, find_accuracy(some), find_mean(some)) for name, some in of_category.items()]
        if set(of_category) - {""}
        else [],
        taken=find_taken(evaluation),
        alignment=find_alignment(evaluation),
    )


def _read_kinds(rows: Any) -> list[ItemKind]:
    return [ItemKind(*row[1:]) for row in rows]


def _read_taken(row: Sequence[Any]) -> Taken:
    tries, prompt, completion, tokens, turns, most, cost, priced, seconds, quantiles, *lengths = row
    median, late = quantiles or (None, None)
    correlation, right, wrong = (None if one is None else float(one) for one in lengths)
    return Taken(
        tries=tries,
        prompt_tokens=None if prompt is None else int(prompt),
        completion_tokens=None if completion is None else int(completion),
        tokens=None if tokens is None else float(tokens),
        turns=None if turns is None else float(turns),
        most_turns=most,
        cost_usd=None if cost is None else float(cost),
        priced=priced,
        seconds=seconds,
        median_s=median,
        p95_s=late,
        length_correlation=correlation,
        length_right=right,
        length_wrong=wrong,
    )
