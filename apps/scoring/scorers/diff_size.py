"""Was the change no larger than it had to be."""

from dataclasses import dataclass

from tentalis.core.scoring.effort import diff_size_score
from tentalis.core.scoring.protocol import AttemptContext, ScorerResult, Unscored


@dataclass(frozen=True)
class DiffSizeScorer:
    name: str = "diff_size"

    def score(self, context: AttemptContext) -> ScorerResult:
        facts = context.facts
        if missing := [name for name in ("changed_lines", "expected_lines") if name not in facts]:
            reason = f"the environment measured no {' and no '.join(missing)}"
            return ScorerResult(scorer=self.name, value=Unscored(reason))
        value = diff_size_score(changed_lines=facts["changed_lines"], expected_lines=facts["expected_lines"])
        return ScorerResult(scorer=self.name, value=value, details={"changed_lines": facts["changed_lines"]})
