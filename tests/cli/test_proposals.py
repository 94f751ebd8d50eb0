"""`tentalis proposal` and `tentalis worker supervise`, against a real platform."""

import pytest

from apps.accounts.models import Project
from apps.supervision.models import Proposal
from apps.workers.models import Worker
from tests.apps.supervision.builders import REFUND, make_proposal, make_supervised_task
from tests.cli.conftest import Run


def test_an_outside_worker_is_made_and_told_what_to_ask(signed_in: Run) -> None:
    assert signed_in("worker", "create", "claw", "--kind", "outside").code == 0
    said = signed_in("worker", "supervise", "claw", "--tool", "refund", "--tool", "mail.*", "--answers")
    assert said.out == "claw asks before it acts\n", said
    assert Worker.objects.get(name="claw").supervision["tools"] == ["refund", "mail.*"]
    assert signed_in("worker", "supervise", "claw", "--off").out == "claw acts alone\n"
    assert Worker.objects.get(name="claw").supervision == {}
    inside = signed_in("worker", "supervise", "echo", "--messages")
    assert (inside.code, "wanted an outside one" in inside.err) == (1, True)


def test_proposals_are_listed_and_shown_without_moving_the_terminal(signed_in: Run) -> None:
    project = Project.objects.get()
    wanted = {"kind": "tool", "tool": "refund", "arguments": {"order": 17, "note": "\x1b[31mred"}}
    proposal = make_proposal(project, action=wanted, context="Charged\x1b[2J twice.", risk="Money is gone.")
    listed = signed_in("proposal", "list")
    assert "refund(" in listed.out
    assert "claw" in listed.out
    shown = signed_in("proposal", "show", str(proposal.pk))
    assert "Money is gone." in shown.out
    assert "\x1b" not in listed.out + shown.out
    assert signed_in("proposal", "list", "--state", "approved").out == "no proposals\n"
    assert signed_in("proposal", "show", str(proposal.pk), "--json").json["action"] == wanted


@pytest.mark.parametrize(
    ("options", "state", "decision"),
    [
        (("approve",), "approved", {}),
        (("reject", "--reason", "Too much."), "rejected", {"reason": "Too much."}),
        (("hint", "--hint", "Rule 4."), "hinted", {"hint": "Rule 4."}),
        (("take-over", "--answer", "By hand."), "taken_over", {"answer": "By hand."}),
        (
            ("edit", "--arguments", '{"amount": 20}'),
            "edited",
            {"action": {**REFUND, "arguments": {"order": 17, "amount": 20, "notify": True}}},
        ),
    ],
)
def test_each_decision_is_given(signed_in: Run, options: tuple[str, ...], state: str, decision: object) -> None:
    proposal = make_proposal(Project.objects.get())
    given = signed_in("proposal", "decide", str(proposal.pk), *options)
    assert given.out == f"proposal {proposal.pk} is {state.replace('_', ' ')}\n", given
    found = Proposal.objects.get()
    assert (found.state, found.decided_by, found.decision) == (state, "user:alice", decision)
    late = signed_in("proposal", "decide", str(proposal.pk), "approve")
    assert (late.code, "user:alice was first" in late.err) == (1, True)
    assert "decision" in signed_in("proposal", "show", str(proposal.pk)).out or not decision


def test_the_text_of_an_answer_is_changed(signed_in: Run) -> None:
    task = make_supervised_task(Project.objects.get())
    proposal = make_proposal(task.project, task, action={"kind": "answer", "text": "38.60"})
    assert signed_in("proposal", "decide", str(proposal.pk), "edit", "--text", "41.20").code == 0
    assert Proposal.objects.get().permitted == {"kind": "answer", "text": "41.20"}


@pytest.mark.parametrize(
    "options",
    [
        ("explode",),
        ("approve", "--reason", "x"),
        ("reject",),
        ("reject", "--reason", "x", "--hint", "y"),
        ("edit", "--arguments", "[1]"),
        ("edit", "--arguments", "{"),
        ("edit", "--text", "x"),
    ],
)
def test_bad_use_is_exit_2_and_decides_nothing(signed_in: Run, options: tuple[str, ...]) -> None:
    proposal = make_proposal(Project.objects.get())
    outcome = signed_in("proposal", "decide", str(proposal.pk), *options)
    assert outcome.code == 2, outcome
    assert Proposal.objects.get().state == "pending"
