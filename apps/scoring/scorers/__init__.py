"""The scorers, one a file. Those that ask a model are made for each task."""

import inspect
from collections.abc import Mapping
from concurrent.futures import Executor
from types import MappingProxyType
from typing import Any, Final, cast

from apps.inference.judges import JudgeScorer, Voter
from apps.scoring.scorers.diff_size import DiffSizeScorer
from apps.scoring.scorers.effort import StepCountScorer
from apps.scoring.scorers.hallucination import HallucinationScorer
from apps.scoring.scorers.outcome import OutcomeScorer
from apps.scoring.scorers.share import ShareScorer
from apps.scoring.scorers.step_verifier import StepVerifier
from tentalis.core.scoring.effort import efficiency_score, effort_score
from tentalis.core.scoring.judging import Criterion
from tentalis.core.scoring.protocol import AttemptContext, Scorer, ScorerResult, Unscored
from tentalis.plugins import Registry

__all__ = ["ASKING", "SCORERS", "AskingScorer"]

ASKING: Mapping[str, Criterion] = MappingProxyType({"prm": "prm", "hallucination": "hallucination"})
"""Scorers that ask a judge, and what they ask it."""


class AskingScorer:
    """Stands in the registry for a scorer that is made anew for each task, with the judge it asks."""

    def __init__(self, name: str) -> None:
        self.name = name

    def convene(self, voter: Voter | Unscored | None, pool: Executor) -> Scorer:
        """The scorer itself; see `JudgeScorer`."""
        judge = JudgeScorer(self.name, ASKING[self.name], voter, pool)
        return HallucinationScorer(judge) if self.name == HallucinationScorer.name else judge

    def score(self, context: AttemptContext) -> ScorerResult:
        return ScorerResult(scorer=self.name, value=Unscored("no judge was convened"))


def _list_own() -> Mapping[str, Scorer]:
    computed: tuple[Scorer, ...] = (
        OutcomeScorer(),
        OutcomeScorer("success"),
        StepVerifier(),
        StepCountScorer("effort", effort_score),
        StepCountScorer("efficiency", efficiency_score),
        ShareScorer("tests", good="tests_passed", total="tests_run"),
        ShareScorer("action_validity", good="valid_actions", total="actions"),
        DiffSizeScorer(),
    )
    return {scorer.name: scorer for scorer in (*computed, *(AskingScorer(name) for name in ASKING))}


def _read_scorer(name: str, found: Any) -> Scorer:
    scorer: Any = found() if inspect.isclass(found) else found
    if scorer.name != name or not callable(scorer.score):
        raise ValueError(f"wanted a scorer that is named as its entry point, {name!r}, found {scorer.name!r}")
    return cast("Scorer", scorer)


SCORERS: Final = Registry[Scorer]("tentalis.scorers", "scorer", _list_own, _read_scorer)
