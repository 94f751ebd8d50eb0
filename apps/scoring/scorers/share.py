"""How many of the things the environment counted went well: tests passed, actions valid."""

from dataclasses import dataclass

from tentalis.core.scoring.protocol import AttemptContext, ScorerResult, Unscored


@dataclass(frozen=True)
class ShareScorer:
    """`good / total`, two counts among what the environment measured."""

    name: str
    good: str
    total: str

    def score(self, context: AttemptContext) -> ScorerResult:
        good, total = context.facts.get(self.good), context.facts.get(self.total)
        if good is None or not total:
            reason = f"the environment measured no {self.good} of {self.total}"
            return ScorerResult(scorer=self.name, value=Unscored(reason))
        return ScorerResult(scorer=self.name, value=good / total, details={self.good: good, self.total: total})
