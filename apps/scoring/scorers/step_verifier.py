"""Was each step right: what the world verified, step by step."""

import math
from dataclasses import dataclass

from tentalis.core.scoring.protocol import AttemptContext, Score, ScorerResult, StepScored, Unscored


@dataclass(frozen=True)
class StepVerifier:
    """The steps' scores, and for the whole their sum over the steps there are and the steps that are missing."""

    name: str = "step_verifier"

    def score(self, context: AttemptContext) -> ScorerResult:
        facts = context.facts
        if facts.get("outcome") is None:
            return ScorerResult(scorer=self.name, value=Unscored(facts["unverified"]))
        reasons = [*facts["step_reasons"], *[""] * len(facts["step_scores"])]
        steps = tuple(
            StepScored(
                index,
                Unscored(reason or "the environment cannot tell of this step") if score is None else score,
                reason,
            )
            for index, (score, reason) in enumerate(zip(facts["step_scores"], reasons, strict=False))
        )
        known = [step.score for step in steps if not isinstance(step.score, Unscored)]
        expected = len(known) + facts["missing_steps"]
        value: Score = Unscored("the environment verifies no single steps")
        if known or facts["missing_steps"]:
            value = math.fsum(known) / expected
        return ScorerResult(
            scorer=self.name, value=value, steps=steps, details={"missing_steps": facts["missing_steps"]}
        )
