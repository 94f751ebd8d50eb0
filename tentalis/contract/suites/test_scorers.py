"""What is asked of a scorer: what it cannot score it leaves, and says why."""

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from tentalis.core.scoring.protocol import AttemptContext, ScorerResult
from tentalis.core.steps import ParsedStep

GROUP = "tentalis.scorers"
STEPS = (
    ParsedStep(kind="step", text="I look.", start=0, end=7),
    ParsedStep(kind="call", text="ls", start=7, end=7, tool_name="ls"),
)


@pytest.mark.parametrize("steps", [(), STEPS])
@pytest.mark.parametrize("answer", [None, "", "42"])
def test_it_scores_or_says_why_not(point: EntryPoint, thing: Any, steps: Any, answer: str | None) -> None:
    context = AttemptContext(environment="chat", prompt="?", text="I look.", steps=steps, answer=answer)
    found = thing.score(context)
    assert isinstance(found, ScorerResult)
    assert found.scorer == thing.name == point.name
    assert all(step.index < len(steps) for step in found.steps)
    assert thing.score(context) == found
