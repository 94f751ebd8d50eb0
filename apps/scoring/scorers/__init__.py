"""The scorers, one a file. Those that ask a model are made for each task."""

from collections.abc import Mapping
from types import MappingProxyType

from apps.scoring.scorers.diff_size import DiffSizeScorer
from apps.scoring.scorers.efficiency import EfficiencyScorer
from apps.scoring.scorers.effort import EffortScorer
from apps.scoring.scorers.hallucination import HallucinationScorer
from apps.scoring.scorers.judge import JudgeScorer
from apps.scoring.scorers.outcome import OutcomeScorer
from apps.scoring.scorers.share import ShareScorer
from apps.scoring.scorers.step_verifier import StepVerifier
from tentalis.core.scoring.judging import Criterion
from tentalis.core.scoring.protocol import Scorer

__all__ = ["ASKING", "COMPUTED", "HallucinationScorer", "JudgeScorer"]

COMPUTED: Mapping[str, Scorer] = MappingProxyType(
    {
        scorer.name: scorer
        for scorer in (
            OutcomeScorer(),
            OutcomeScorer("success"),
            StepVerifier(),
            EffortScorer(),
            EfficiencyScorer(),
            ShareScorer("tests", good="tests_passed", total="tests_run"),
            ShareScorer("action_validity", good="valid_actions", total="actions"),
            DiffSizeScorer(),
        )
    }
)
"""Scorers that only compute, by name."""

ASKING: Mapping[str, Criterion] = MappingProxyType({"prm": "prm", "hallucination": "hallucination"})
"""Scorers that ask a judge, and what they ask it."""
