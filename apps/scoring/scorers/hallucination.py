"""Did it make anything up: rules look claims up in the sources, and where they cannot tell a judge is asked."""

from dataclasses import dataclass
from typing import ClassVar

from tentalis.core.scoring.hallucination import Checked, check_attempt, describe
from tentalis.core.scoring.protocol import AttemptContext, Score, Scorer, ScorerResult, StepScored, Unscored


@dataclass(frozen=True)
class HallucinationScorer:
    """What rules found in no source stands, with its spans; of the rest the judge's word counts, where there is one.

    Args:
        judge: asks a model; its reason is kept where nobody can be asked.
    """

    judge: Scorer
    name: ClassVar[str] = "hallucination"

    def score(self, context: AttemptContext) -> ScorerResult:
        checked = check_attempt(context)
        judged = self.judge.score(context)
        said = {step.index: step for step in judged.steps}
        value = _join(checked.score, judged.value, is_broken=bool(checked.unsupported))
        return ScorerResult(
            scorer=self.name,
            value=value,
            steps=tuple(
                _join_step(checked, index, said.get(index))
                for index, step in enumerate(checked.steps)
                if index in said or step.claims
            ),
            comment=describe(checked.unsupported) or judged.comment,
            spread=judged.spread,
            details={**judged.details, "claims": _count(checked)},
        )


def _join(rules: Score, judged: Score, *, is_broken: bool) -> Score:
    """The lower of both where rules found something unsupported, else the judge's word, else the rules'."""
    if isinstance(judged, Unscored):
        return Unscored(f"{rules.reason}; {judged.reason}") if isinstance(rules, Unscored) else rules
    if is_broken and not isinstance(rules, Unscored):
        return min(rules, judged)
    return judged


def _join_step(checked: Checked, index: int, judged: StepScored | None) -> StepScored:
    found = checked.steps[index].scored(index)
    if judged is None:
        return found
    is_broken = bool(checked.steps[index].unsupported)
    return StepScored(
        index,
        _join(found.score, judged.score, is_broken=is_broken),
        found.comment or judged.comment,
        judged.spread,
        found.details,
    )


def _count(checked: Checked) -> dict[str, int]:
    claims = [claim.is_supported for step in checked.steps for claim in step.claims]
    return {"supported": claims.count(True), "unsupported": claims.count(False), "unsure": claims.count(None)}
