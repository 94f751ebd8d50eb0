"""Was the task done: what the world verified."""

from dataclasses import dataclass

from tentalis.core.scoring.protocol import AttemptContext, ScorerResult, Unscored


@dataclass(frozen=True)
class OutcomeScorer:
    """The world's own verdict; `success` is what it is called where an exit status decides."""

    name: str = "outcome"

    def score(self, context: AttemptContext) -> ScorerResult:
        found = context.facts.get("outcome")
        value = Unscored(context.facts["unverified"]) if found is None else float(found)
        return ScorerResult(scorer=self.name, value=value)
