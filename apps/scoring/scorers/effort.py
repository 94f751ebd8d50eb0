"""Was the work done, with as many distinct steps as the task takes."""

from dataclasses import dataclass

from tentalis.core.scoring.effort import count_steps, effort_score
from tentalis.core.scoring.protocol import AttemptContext, ScorerResult


@dataclass(frozen=True)
class EffortScorer:
    name: str = "effort"

    def score(self, context: AttemptContext) -> ScorerResult:
        counts, expected = count_steps(context.steps), context.facts["expected_steps"]
        details = {"used": counts.used, "useful": counts.useful, "expected": expected}
        return ScorerResult(scorer=self.name, value=effort_score(counts, expected=expected), details=details)
