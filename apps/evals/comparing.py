"""Comparing two evaluations: by item, never by the order in which they were tried."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from statistics import fmean
from typing import Any, Literal, NamedTuple

from apps.base.errors import BadInputError
from apps.evals.errors import TooFewScoredError
from apps.evals.models import Evaluation, ItemTry
from apps.evals.results import Measured, read_measured
from tentalis.core.learning.gate import PairedComparison, compare_paired, minimum_detectable_effect
from tentalis.core.learning.gate_course import Pairs
from tentalis.core.learning.several_questions import adjust_holm, find_p_value

CONFIDENCE = 0.95
"""Of what people compare: of the interval of each difference, two-sided. So one comparison of twenty shows a difference
where there is none, and the smallest effect that is named is that which such an interval finds."""
LEAST_SCORED = 0.9
"""Share of the items that both sides were tried on whose outcome must be known on both."""


def read_outcomes(evaluations: Iterable[Evaluation]) -> tuple[dict[int, dict[int, float]], dict[int, float]]:
    """Evaluation id -> item's key -> the mean outcome of its tries that have one, in the order of the items; and item's
    key -> its weight."""
    ids = [evaluation.pk for evaluation in evaluations]
    found: dict[int, dict[int, list[float]]] = {pk: {} for pk in ids}
    scored: Any = ItemTry.objects.filter(evaluation__in=ids, outcome__isnull=False).order_by(
        "evaluation", "place", "number"
    )
    weights: dict[int, float] = {}
    for pk, key, outcome, weight in scored.values_list("evaluation_id", "key", "outcome", "weight"):
        found[pk].setdefault(key, []).append(outcome)
        weights[key] = weight
    return {pk: {key: fmean(each) for key, each in items.items()} for pk, items in found.items()}, weights


def pair(
    candidate: Mapping[int, float], reference: Mapping[int, float], weights: Mapping[int, float]
) -> tuple[list[float], list[float], list[float]]:
    """What both say of the items that both have, in the candidate's order, and what each weighs."""
    both = [key for key in candidate if key in reference]
    return [candidate[key] for key in both], [reference[key] for key in both], [weights[key] for key in both]


def pair_first(candidate: Measured, reference: Measured, keys: Sequence[int]) -> Pairs:
    """What both say of these items.

    Raises:
        TooFewScoredError: too many of them have no outcome on one of the sides.
    """
    known = [key for key in keys if key in candidate.outcomes and key in reference.outcomes]
    require_scored(planned=len(keys), scored=len(known), reasons=_find_reasons(candidate, reference))
    return Pairs(
        mine=[candidate.outcomes[key] for key in known],
        theirs=[reference.outcomes[key] for key in known],
        my_steps=[candidate.step_scores[key] for key in known],
        their_steps=[reference.step_scores[key] for key in known],
        weights=[candidate.weights[key] for key in known],
    )


def require_scored(*, planned: int, scored: int, reasons: Sequence[str] = ()) -> None:
    """See that enough tasks have an outcome on both sides.

    Args:
        planned: tasks there are; scored: those with an outcome; reasons: why others have none, the first is told.
    Raises:
        TooFewScoredError: fewer than `LEAST_SCORED` of them.
    """
    if not scored or scored < LEAST_SCORED * planned:
        words = f"wanted outcomes of at least {LEAST_SCORED:.0%} of {planned} tasks on both sides, found {scored}"
        raise TooFewScoredError(f"{words}: {reasons[0]}" if reasons else words)


def _find_reasons(*measured: Measured) -> Sequence[str]:
    return list(dict.fromkeys(row.reason for one in measured for row in one.tries.values() if row.reason))


@dataclass(frozen=True)
class QuestionAnswer:
    """What one question was answered.

    Attributes:
        effect: the smallest true difference that so many items show four times in five; None: they show none at all.
        p: corrected for how many questions were asked (Holm).
        effective_items: so many of equal weight say as much; None: all weigh the same.
    """

    items: int
    candidate: float
    reference: float
    difference: float
    low: float
    high: float
    confidence: float
    effective_items: float | None
    effect: float | None
    p: float

    @property
    def verdict(self) -> Literal["better", "worse", "no difference shown"]:
        """What the corrected p lets be said of the first."""
        if self.p >= 1 - self.confidence:
            return "no difference shown"
        return "better" if self.difference > 0 else "worse"


@dataclass(frozen=True)
class EvaluationComparison:
    """Two evaluations by their ids, paired by item; no answer of step scores where none were given."""

    a: int
    b: int
    outcomes: QuestionAnswer
    step_scores: QuestionAnswer | None


class _Differences(NamedTuple):
    """Of outcomes and, where there are any, of step scores; or why there are none."""

    found: Sequence[PairedComparison] = ()
    why: str = ""


def compare_evaluations(a: Evaluation, b: Evaluation, *, confidence: float = CONFIDENCE) -> EvaluationComparison:
    """The first minus the second.

    Raises:
        BadInputError: they are of two projects.
        TooFewScoredError: too few items have an outcome on both sides.
    """
    if a.project_id != b.project_id:
        raise BadInputError.at("b", f"wanted an evaluation of the project that {a.pk} is of, found {b.pk}")
    [found] = compare_together([(a, b)], confidence=confidence)
    if isinstance(found, str):
        raise TooFewScoredError(found)
    return found


def compare_together(
    questions: Sequence[tuple[Evaluation, Evaluation]], *, confidence: float = CONFIDENCE, with_steps: bool = True
) -> list[EvaluationComparison | str]:
    """Of each question the first minus the second, every p corrected for all that are asked; why not where there is no
    answer, which is none less to correct for. Each evaluation is read once.

    Args:
        with_steps: step scores are asked about too, where there are any.
    """
    measured: dict[int, Measured] = {}
    for side in chain.from_iterable(questions):
        if side.pk not in measured and side.state == Evaluation.State.DONE:
            measured[side.pk] = read_measured(side)
    asked = [_compare(a, b, measured, confidence=confidence, with_steps=with_steps) for a, b in questions]
    p_values = [[find_p_value(each) for each in one.found] or [1.0] for one in asked]
    corrected = iter(adjust_holm(list(chain.from_iterable(p_values))))
    answers: list[EvaluationComparison | str] = []
    for (a, b), one, raw in zip(questions, asked, p_values, strict=True):
        own = list(islice(corrected, len(raw)))
        found = [_answer(each, p) for each, p in zip(one.found, own, strict=False)]
        steps = found[1] if len(found) > 1 else None
        answers.append(EvaluationComparison(a.pk, b.pk, found[0], steps) if found else one.why)
    return answers


def _compare(
    a: Evaluation, b: Evaluation, measured: Mapping[int, Measured], *, confidence: float, with_steps: bool
) -> _Differences:
    for one in (a, b):
        if one.pk not in measured:
            return _Differences(why=f"evaluation {one.pk} is {one.state}: wanted it {Evaluation.State.DONE}")
    mine, theirs = measured[a.pk], measured[b.pk]
    smaller = min(mine, theirs, key=lambda one: one.items)
    wanted = {row.key for row in smaller.tries.values()}
    sides = [(mine.outcomes, theirs.outcomes)] + [(mine.step_scores, theirs.step_scores)] * with_steps
    pairs = [pair(*side, mine.weights) for side in sides]
    try:
        require_scored(planned=len(wanted), scored=len(pairs[0][0]), reasons=_find_reasons(mine, theirs))
    except TooFewScoredError as error:
        return _Differences(why=str(error))
    return _Differences([compare_paired(*one, confidence=confidence) for one in pairs if one[0]])


def _answer(found: PairedComparison, p: float) -> QuestionAnswer:
    effect = minimum_detectable_effect(items=found.size, std=found.std, confidence=found.confidence)
    values = {name: value for name, value in asdict(found).items() if name != "std"}
    return QuestionAnswer(**values, effect=effect if effect < 1 else None, p=p)
