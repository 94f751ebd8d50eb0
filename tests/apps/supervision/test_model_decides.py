"""A model that decides what an agent proposes, before anybody else: the outside model is a fake, its bytes are real."""

import json
from collections.abc import Iterator

import pytest
from pytest_django import Settings

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.feedback.models import Feedback
from apps.inference.models import Exchange
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.pipeline.deciding import ask_model
from apps.supervision.models import Proposal
from apps.supervision.services import decide
from tests.apps.supervision.builders import RULES, make_agent, make_proposal, make_supervised_task
from tests.fakes import FakeModelServer
from tests.links import run_link

pytestmark = pytest.mark.django_db
SAID = {
    "Refund 17.": {"decision": "approve", "reason": "It is asked for."},
    "Empty the till.": {"decision": "reject", "reason": "Nobody asked for so much: refund what was paid."},
    "Who knows.": {"decision": "unsure", "reason": "The task names no order."},
    "Broken.": {"decision": "perhaps"},
}


@pytest.fixture
def model(settings: Settings) -> Iterator[FakeModelServer]:
    def reply(prompt: str, index: int) -> str:
        return next(json.dumps(said) for words, said in SAID.items() if words in prompt)

    with FakeModelServer(models=["judge-model"], is_plain=True, reply=reply) as server:
        changes = {"LLM_MODEL": "judge-model", "INFERENCE_BACKEND": "openai", "INFERENCE_BASE_URL": server.url}
        settings.TENTALIS = settings.TENTALIS | changes
        yield server


def propose_and_ask(project: Project, prompt: str) -> Proposal:
    proposal = make_proposal(
        project, make_supervised_task(project, RULES | {"model_decides": True}, prompt=prompt), step_index=1
    )
    segment = Segment.objects.get(kind="decide", subject_id=proposal.pk)
    assert run_link(ask_model, segment.pk, 0)
    proposal.refresh_from_db()
    return proposal


@pytest.mark.parametrize(
    ("prompt", "state", "outcome"), [("Refund 17.", "approved", "go_on"), ("Empty the till.", "rejected", "stop")]
)
def test_its_word_counts_and_is_told_with_its_name(
    project: Project, model: FakeModelServer, prompt: str, state: str, outcome: str
) -> None:
    found = propose_and_ask(project, prompt)
    assert (found.state, found.outcome, found.decided_by) == (state, outcome, "agent:llm:judge-model")
    judge = {"provider": None, "model": "judge-model"}
    assert found.decision == {"model": "judge-model", "reason": SAID[prompt]["reason"], "judge": judge}
    entry = AuditEntry.objects.get(kind=f"proposal.{state}")
    assert (entry.actor, entry.payload["model"]) == ("agent:llm:judge-model", "judge-model")
    assert Exchange.objects.get(task_id=found.task_id).turn == "manager", "what it cost is kept with the task"


@pytest.mark.parametrize(
    ("prompt", "words"),
    [("Who knows.", "judge-model leaves it to others: The task names no order."), ("Broken.", "found 'perhaps'")],
)
def test_what_it_is_not_sure_of_waits_for_people_and_says_so(
    project: Project, model: FakeModelServer, bob: User, prompt: str, words: str
) -> None:
    found = propose_and_ask(project, prompt)
    assert (found.state, found.decision) == ("pending", {})
    assert found.reason.startswith("tools named refund wait for approval; ")
    assert words in found.reason
    decide(proposal=found, decision="approve", by=bob)
    assert found.decided_by == "user:bob"


def test_who_was_first_is_first_and_nobody_is_asked_where_the_rules_want_none(
    project: Project, model: FakeModelServer, bob: User
) -> None:
    task = make_supervised_task(project, RULES | {"model_decides": True}, prompt="Empty the till.")
    proposal = make_proposal(project, task)
    decide(proposal=proposal, decision="approve", by=bob)
    assert run_link(ask_model, Segment.objects.get(kind="decide").pk, 0)
    proposal.refresh_from_db()
    assert (proposal.decided_by, Exchange.objects.count()) == ("user:bob", 0)
    task.worker.supervision = RULES
    task.worker.save()
    make_proposal(project, task)
    assert Segment.objects.filter(kind="decide").count() == 1


def test_without_a_model_it_waits(project: Project) -> None:
    found = propose_and_ask(project, "Refund 17.")
    assert found.state == "pending"
    assert "no model is configured" in found.reason


def test_what_a_model_refused_is_no_persons_word(project: Project, model: FakeModelServer) -> None:
    found = propose_and_ask(project, "Empty the till.")
    steps = [{"text": "Look."}, {"text": "refund", "kind": "call", "tool_name": "refund"}]
    flow.submit_own_attempt(task=found.task, steps=steps, answer="Done.", by=make_agent(project))
    feedback = Feedback.objects.get()
    assert (feedback.author, feedback.source) == ("supervisor:llm:judge-model", "outside")
    assert feedback.judge == found.decision["judge"]
