"""Judging scorers beside what the world verified: their weight follows. Verifiers are the truth and never weighed."""

from collections.abc import Iterable, Mapping, Sequence

from apps.calibration.models import Comparison, Rater
from apps.calibration.selectors import weights_of
from apps.calibration.services import JudgedRow, Sitting
from apps.tasks.models import Step
from tentalis.core.scoring.protocol import Score, ScorerResult, Unscored
from tentalis.core.worlds import Verification

Item = tuple[int, int | None]
"""(attempt id, step id), or (attempt id, None): the attempt as a whole."""
Found = tuple[int, Sequence[Step], Mapping[str, ScorerResult], Verification | None]
"""One attempt: its id, its steps, what each scorer said, what was verified."""


def find_trust(project_id: int, scorers: Mapping[str, str]) -> dict[str, float]:
    """Scorer -> factor on its weight, in [0, 1]: 1 for an unknown one, 0 for a quarantined one.

    Args:
        scorers: scorer -> handle of the rater behind it now.
    """
    if not scorers:
        return {}
    weights = weights_of(project_id, scorers.values())
    return {name: weights[handle] for name, handle in scorers.items()}


def name_rater(scorer: str) -> str:
    """The scorer's handle as a rater."""
    return f"scorer:{scorer}"


def hold_against_verified(held: Iterable[Found], raters: Mapping[str, str]) -> list[Sitting]:
    """What the judging scorers said of attempts and steps whose truth the world knows.

    Args:
        raters: scorer -> handle of the rater behind it.
    """
    rows: dict[str, list[JudgedRow]] = {}
    for attempt, steps, results, verification in held:
        if verification is None or verification.outcome is None:
            continue
        truths: dict[Item, float | None] = {(attempt, None): verification.outcome}
        for step, truth in zip(steps, verification.step_scores, strict=False):
            truths[attempt, step.pk] = truth
        for name, result in results.items():
            if name in raters:
                said: dict[Item, Score] = {(attempt, None): result.value}
                said |= {(attempt, steps[step.index].pk): step.score for step in result.steps}
                rows.setdefault(name, []).extend(_compare(said, truths))
    return [Sitting(raters[name], Rater.Kind.SCORER, compared) for name, compared in rows.items()]


def _compare(said: Mapping[Item, Score], truths: Mapping[Item, float | None]) -> Iterable[JudgedRow]:
    for item, score in said.items():
        truth = truths.get(item)
        if truth is not None and not isinstance(score, Unscored):
            yield JudgedRow(*item, float(score), float(truth), Comparison.Source.VERIFIED)
