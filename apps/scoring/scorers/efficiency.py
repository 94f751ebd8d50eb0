"""Was nothing wasted."""

from dataclasses import dataclass

from tentalis.core.scoring.effort import count_steps, efficiency_score
from tentalis.core.scoring.protocol import AttemptContext, ScorerResult


@dataclass(frozen=True)
class EfficiencyScorer:
    name: str = "efficiency"

    def score(self, context: AttemptContext) -> ScorerResult:
        counts, expected = count_steps(context.steps), context.facts["expected_steps"]
        details = {"used": counts.used, "useful": counts.useful, "expected": expected}
        return ScorerResult(scorer=self.name, value=efficiency_score(counts, expected=expected), details=details)
