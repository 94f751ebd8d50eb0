"""Was the work done, with as many distinct steps as the task takes; and was nothing wasted."""

from collections.abc import Callable
from dataclasses import dataclass

from tentalis.core.scoring.effort import count_steps
from tentalis.core.scoring.protocol import AttemptContext, Score, ScorerResult


@dataclass(frozen=True)
class StepCountScorer:
    """A score of how many steps were used, of use and expected; see `tentalis.core.scoring.effort`."""

    name: str
    measure: Callable[..., Score]

    def score(self, context: AttemptContext) -> ScorerResult:
        counts, expected = count_steps(context.steps), context.facts["expected_steps"]
        details = {"used": counts.used, "useful": counts.useful, "expected": expected}
        return ScorerResult(scorer=self.name, value=self.measure(counts, expected=expected), details=details)
