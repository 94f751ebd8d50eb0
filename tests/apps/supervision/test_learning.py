"""What persons said while an agent worked stays with the work it handed in."""

from datetime import UTC, datetime
from typing import Any

import pytest

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.calibration.models import Rater
from apps.feedback.claims import claim_review
from apps.feedback.create_reviews import open_reviews
from apps.feedback.models import Feedback, StepFeedback
from apps.feedback.selectors import effective_judgement
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.rollouts.models import Demonstration, PreferencePair
from apps.rollouts.services import build_rollouts
from apps.supervision.models import Proposal
from apps.supervision.services import decide, propose
from apps.tasks.models import Attempt, Task
from apps.workers.models import Worker
from tests.apps.supervision.builders import REFUND, make_agent, make_proposal, make_supervised_task
from tests.factories import make_worker

STEPS = [{"text": "Look the order up."}, {"text": "refund", "kind": "call", "tool_name": "refund"}]
AT_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SMALLER = REFUND | {"arguments": {"order": 17, "amount": 20.0, "notify": True}}


def hand_in(task: Task) -> Attempt:
    return flow.submit_own_attempt(task=task, steps=STEPS, answer="Refunded.", by=make_agent(task.project))


def test_an_outside_workers_task_waits_for_its_agent_and_goes_on_when_it_is_handed_in(
    project: Project, alice: User
) -> None:
    worker = make_worker(project, "claw", Worker.Kind.OUTSIDE)
    task = flow.submit(project=project, prompt="Refund it.", environment="chat", by=alice, worker=worker)
    assert not Segment.objects.exists()
    hand_in(task)
    assert Segment.objects.get().kind == "work"
    task.refresh_from_db()
    assert task.state == "scoring"


@pytest.mark.parametrize(
    ("decision", "said", "comment"),
    [
        ("reject", {"reason": "Too much."}, "Not allowed: refund(order=17, amount=84.5, notify=True). Too much."),
        (
            "edit",
            {"action": SMALLER},
            "Wanted refund(order=17, amount=84.5, notify=True); right was refund(order=17, amount=20.0, notify=True).",
        ),
        ("hint", {"hint": "House rule 4."}, "Before refund(order=17, amount=84.5, notify=True): House rule 4."),
    ],
)
def test_a_decision_becomes_words_on_its_step(
    project: Project, bob: User, decision: str, said: Any, comment: str
) -> None:
    proposal = make_proposal(project, step_index=1)
    decide(proposal=proposal, decision=decision, by=bob, **said)
    attempt = hand_in(proposal.task)
    feedback = Feedback.objects.get()
    assert (feedback.author, feedback.source, feedback.score) == ("supervisor:bob", "human", None)
    word = StepFeedback.objects.get()
    assert (word.attempt, word.step and word.step.index, word.score, word.comment) == (attempt, 1, None, comment)
    assert Proposal.objects.get().attempt == attempt
    entry = AuditEntry.objects.get(kind="feedback.given")
    assert (entry.actor, entry.payload["proposals"]) == ("user:bob", [proposal.pk])


def test_what_was_answered_instead_teaches_as_the_right_answer(project: Project, bob: User) -> None:
    proposal = make_proposal(project, step_index=1)
    decide(proposal=proposal, decision="take_over", answer="We keep the money.", by=bob)
    hand_in(proposal.task)
    feedback = Feedback.objects.get()
    assert feedback.edited_answer == "We keep the money."
    assert "a person took over" in feedback.steps.get().comment


def test_an_approval_says_nothing(project: Project, bob: User) -> None:
    proposal = make_proposal(project, step_index=1)
    propose(task=proposal.task, action={"kind": "message", "text": "Hello."}, by=make_agent(project))
    decide(proposal=proposal, decision="approve", by=bob)
    attempt = hand_in(proposal.task)
    assert not Feedback.objects.exists()
    assert set(Proposal.objects.values_list("attempt", flat=True)) == {attempt.pk}


def test_several_words_on_one_step_are_one_and_a_step_that_is_not_there_is_the_whole_attempt(
    project: Project, alice: User, bob: User
) -> None:
    task = make_supervised_task(project)
    for place, user in ((1, bob), (1, bob), (7, bob), (None, bob), (0, alice)):
        decide(proposal=make_proposal(project, task, step_index=place), decision="reject", reason="No.", by=user)
    hand_in(task)
    by_bob, by_alice = Feedback.objects.order_by("id")
    assert (by_bob.author, by_alice.author) == ("supervisor:bob", "supervisor:alice")
    words = {word.step.index if word.step else None: word.comment.count("Not allowed") for word in by_bob.steps.all()}
    assert words == {1: 2, None: 2}


@pytest.mark.parametrize(
    ("standing", "weights"), [({}, [1.0]), ({"weight": 0.25}, [0.25]), ({"quarantined_at": AT_NOON}, [])]
)
@pytest.mark.parametrize("said", [{"decision": "edit", "action": SMALLER}, {"decision": "take_over", "answer": "No."}])
def test_what_was_decided_teaches_as_far_as_who_decided_is_trusted_by_now(
    project: Project, bob: User, said: dict[str, Any], standing: dict[str, Any], weights: list[float]
) -> None:
    Rater.objects.create(project=project, handle=bob.handle, kind="person", **standing)
    proposal = make_proposal(project, step_index=1)
    decide(proposal=proposal, by=bob, **said)
    attempt = hand_in(proposal.task)
    Task.objects.update(state="learning")
    build_rollouts([proposal.task_id], by="test")
    for kind, source in ((PreferencePair, "supervision"), (Demonstration, "guided")):
        assert list(kind.objects.filter(source=source).values_list("weight", flat=True)) == weights
    assert Attempt.objects.get() == attempt


def test_what_still_waits_at_hand_in_is_over(project: Project) -> None:
    proposal = make_proposal(project)
    hand_in(proposal.task)
    proposal.refresh_from_db()
    assert (proposal.state, proposal.outcome, proposal.decision["why"]) == ("expired", "stop", "the work was handed in")
    assert not Feedback.objects.exists()


def test_no_reward_is_made_of_it_and_who_helped_may_still_review_the_work(project: Project, bob: User) -> None:
    proposal = make_proposal(project, step_index=1)
    decide(proposal=proposal, decision="reject", reason="Too much.", by=bob)
    hand_in(proposal.task)
    open_reviews([proposal.task_id])
    judged = effective_judgement(proposal.task)
    assert [judgement.reward for judgement in judged.values()] == [None]
    assert all(not judgement.human_step_scores for judgement in judged.values())
    review = claim_review(project=project, by=bob)
    assert review is not None
    assert review.task_id == proposal.task_id
