"""What is asked of a supervisor: a word on whatever is proposed."""

from importlib.metadata import EntryPoint

import pytest

from tentalis.core.scoring.judging import DECISION_WORDS, Decision
from tentalis.core.supervision import ProposedAction, Supervisor

GROUP = "tentalis.supervisors"
ACTIONS = (
    ProposedAction(prompt="?", kind="tool", tool="shell", arguments={"command": "ls"}),
    ProposedAction(prompt="?", kind="tool", tool="", arguments={"unreadable": "{"}),
    ProposedAction(prompt="?", kind="message", text=""),
    ProposedAction(prompt="?", kind="answer", text="42", context="x" * 10_000, risk="none"),
)


@pytest.mark.parametrize("action", ACTIONS)
def test_it_decides_whatever_is_proposed(point: EntryPoint, thing: Supervisor, action: ProposedAction) -> None:
    said = thing.decide(action)
    assert isinstance(said, Decision)
    assert said.word in DECISION_WORDS
    assert said.reason.strip() or said.word == "approve", "only an approval may go without a reason"
    assert thing.name == point.name
