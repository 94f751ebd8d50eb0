"""What a scorer may give back."""

from typing import Any

import pytest

from tentalis.core.scoring.protocol import (
    AttemptContext,
    Scorer,
    ScorerResult,
    ScoringError,
    StepScored,
    Unscored,
)


class LengthScorer:
    name = "effort"

    def score(self, context: AttemptContext) -> ScorerResult:
        if context.answer is None:
            return ScorerResult(scorer=self.name, value=Unscored("no answer"))
        return ScorerResult(scorer=self.name, value=min(1.0, len(context.answer) / 10))


def test_a_scorer_is_anything_with_a_name_that_scores() -> None:
    scorer: Scorer = LengthScorer()
    context = AttemptContext(environment="chat", prompt="p", text="hello", steps=(), answer="hello")
    assert scorer.score(context).value == 0.5


@pytest.mark.parametrize("value", [1.01, -0.1, float("nan"), float("inf"), True, None, "0.5"])
def test_only_a_number_in_range_or_unscored_is_a_score(value: Any) -> None:
    with pytest.raises(ScoringError, match=r"wanted a number in \[0, 1\] or Unscored"):
        ScorerResult(scorer="prm", value=value)
    with pytest.raises(ScoringError, match="step 2"):
        StepScored(2, value)


def test_steps_come_by_rising_index_each_once() -> None:
    with pytest.raises(ScoringError, match=r"found \[1, 0\]"):
        ScorerResult(scorer="prm", value=1.0, steps=(StepScored(1, 1.0), StepScored(0, 1.0)))
    with pytest.raises(ScoringError, match=r"found \[0, 0\]"):
        ScorerResult(scorer="prm", value=1.0, steps=(StepScored(0, 1.0), StepScored(0, 1.0)))
    with pytest.raises(ScoringError, match="found -1"):
        StepScored(-1, 1.0)


def test_unscored_wants_its_reason() -> None:
    with pytest.raises(ScoringError, match="reason"):
        Unscored(" ")
