"""What persons said while an agent worked stays with the work it handed in."""

from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps

from apps.accounts.models import Member, Project, Role, User
from apps.audit.models import AuditEntry
from apps.audit.services import record
from apps.calibration.models import Rater
from apps.feedback.claims import claim_review
from apps.feedback.create_reviews import open_reviews
from apps.feedback.models import Feedback, StepFeedback
from apps.feedback.selectors import effective_judgement
from apps.feedback.set_aside import Trust, name_supervisor
from apps.judges.models import name_llm_manager
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.rollouts.models import Demonstration, PreferencePair
from apps.rollouts.services import build_rollouts
from apps.supervision.models import Proposal
from apps.supervision.services import decide, propose, take_models_word
from apps.supervision.supervisors import name_program
from apps.tasks.models import Attempt, Task
from apps.workers.models import Worker
from tentalis.core.scoring.judging import Decision
from tests.apps.supervision.builders import REFUND, RULES, make_agent, make_proposal, make_supervised_task
from tests.factories import make_user, make_worker

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


def test_what_a_program_or_an_agent_decided_is_never_the_word_of_a_person_of_that_name(
    project: Project, bob: User
) -> None:
    """Nor was it in rows of before: the migration traces them to the program."""
    task = make_supervised_task(project, RULES | {"agents_decide": True})
    agent, long = make_user("judge", is_agent=True), name_llm_manager("m" * 200)
    Member.objects.create(project=project, user=agent, role=Role.AGENT)
    for place, by in enumerate((name_program("bob"), long)):
        proposal = make_proposal(project, task, step_index=place)
        take_models_word(proposal, Decision("reject", "By the book."), by=by, model="bob")
    decide(proposal=make_proposal(project, task, step_index=0), decision="reject", reason="No.", by=bob)
    decide(proposal=make_proposal(project, task, step_index=1), decision="take_over", answer="No.", by=agent)
    Rater.objects.create(project=project, handle=name_program("bob"), kind="ai", weight=0.5)
    hand_in(task)
    given = {one.author: one for one in Feedback.objects.all()}
    assert {author: (one.source, one.trust) for author, one in given.items()} == {
        "supervisor:program:bob": ("outside", 0.5), name_supervisor(long): ("outside", 0.5),
        "supervisor:bob": ("human", 1.0), "supervisor:judge": ("outside", 0.5),
    }  # fmt: skip
    weights = Trust(project.pk).weigh(given.values())
    assert [weights[given[f"supervisor:{name}"].pk] for name in ("program:bob", "bob", "judge")] == [0.25, 1.0, 0.5]
    assert "an agent took over" in given["supervisor:judge"].steps.get().comment
    program = given["supervisor:program:bob"]
    entry = AuditEntry.objects.get(kind="feedback.given", subject_id=program.pk)
    assert entry.actor == "agent:program:bob"
    Feedback.objects.filter(pk=program.pk).update(author="supervisor:bob", source="human", trust=1.0)
    record("feedback.given", subject=program, by="supervisor:bob")
    Proposal.objects.filter(decided_by="agent:program:bob").update(decided_by="supervisor:bob")
    migration = import_module("apps.feedback.migrations.0014_what_programs_decided_is_no_persons_word")
    migration.trace_to_programs(apps, None)
    program.refresh_from_db()
    assert (program.author, program.source, program.trust) == ("supervisor:program:bob", "outside", 0.5)
    assert Proposal.objects.filter(decided_by="agent:program:bob").exists()
    assert Feedback.objects.by_people().get().author == "supervisor:bob"


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
