"""Proposals made, decided and expired."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from apps.accounts.models import Member, Project, Role, User
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, NotAllowedError, NotFoundError
from apps.pipeline import flow
from apps.supervision.actions import MAX_CONTEXT_CHARS
from apps.supervision.errors import AlreadyDecidedError, NotSupervisedError, NotYoursToDecideError
from apps.supervision.models import Proposal
from apps.supervision.services import MAX_PENDING, decide, expire_proposals, propose, take_models_word
from apps.tasks.models import Task
from apps.workers.models import Worker
from tentalis.core.scoring.judging import Decision
from tests.apps.supervision.builders import (
    REFUND,
    let_time_pass,
    make_agent,
    make_proposal,
    make_supervised_task,
)
from tests.factories import make_project, make_task, make_user

SMALLER = REFUND | {"arguments": {"order": 17, "amount": 20.0, "notify": True}}


def kinds_of(proposal: Proposal) -> list[str]:
    entries = AuditEntry.objects.filter(subject_type="proposal", subject_id=proposal.pk).order_by("id")
    return list(entries.values_list("kind", flat=True))


# --- proposing ---


def test_an_action_the_rules_name_waits_for_a_person(project: Project) -> None:
    proposal = make_proposal(project, context="The customer wants money.", risk="84.50 are gone.", step_index=2)
    assert (proposal.state, proposal.outcome, proposal.permitted) == ("pending", "wait", None)
    assert proposal.reason == "tools named refund wait for approval"
    assert proposal.deadline_at is not None
    assert 295 < (proposal.deadline_at - timezone.now()).total_seconds() <= 300.5
    assert kinds_of(proposal) == ["proposal.made"]
    entry = AuditEntry.objects.get(subject_type="proposal")
    assert (entry.actor, entry.project_id, entry.payload["tool"]) == ("agent:claw", project.pk, "refund")


@pytest.mark.parametrize(
    ("rules", "action"),
    [
        ({}, REFUND),
        ({"tools": ["mail.*"]}, REFUND),
        ({"tools": ["*"], "except_tools": ["refund"]}, REFUND),
        ({"tools": ["*"]}, {"kind": "message", "text": "Hello."}),
        ({"tools": ["*"]}, {"kind": "answer", "text": "38.60"}),
    ],
)
def test_what_no_rule_names_is_approved_at_once(project: Project, rules: Any, action: Any) -> None:
    task = make_supervised_task(project, rules)
    proposal = propose(task=task, action=action, by=make_agent(project))
    assert (proposal.state, proposal.decided_by, proposal.outcome) == ("approved", "policy", "go_on")
    assert proposal.permitted == action
    assert proposal.decided_at is not None
    assert kinds_of(proposal) == ["proposal.approved"]


def test_of_a_long_context_the_end_is_kept(project: Project) -> None:
    proposal = make_proposal(project, context="a" * MAX_CONTEXT_CHARS + "the end")
    assert len(proposal.context) == MAX_CONTEXT_CHARS
    assert proposal.context.endswith("athe end")


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"action": []}, "action", "an object, found list"),
        ({"action": {"kind": "dance"}}, "action", "tool, message, answer"),
        ({"action": {"kind": "tool"}}, "action", "a name of 1 to 100"),
        ({"action": {"kind": "tool", "tool": "a\nb"}}, "action", "printable"),
        ({"action": {"kind": "tool", "tool": "x" * 101}}, "action", "100"),
        ({"action": {"kind": "tool", "tool": "x", "arguments": [1]}}, "action", "arguments: wanted an object"),
        ({"action": {"kind": "tool", "tool": "x", "arguments": {"a": "b" * 20_001}}}, "action", "20,000 bytes"),
        ({"action": {"kind": "tool", "tool": "x", "arguments": {"a": "\x00"}}}, "action", "NUL"),
        ({"action": {"kind": "tool", "tool": "x", "arguments": {"a": float("nan")}}}, "action", "finite"),
        ({"action": {"kind": "tool", "tool": "x", "text": "more"}}, "action", "found text"),
        ({"action": {"kind": "message", "text": "  "}}, "action", "some text"),
        ({"action": {"kind": "answer", "text": "x" * 20_001}}, "action", "20,000"),
        ({"action": REFUND, "context": "\x00"}, "context", "NUL"),
        ({"action": REFUND, "risk": "x" * 1001}, "risk", "1,000"),
        ({"action": REFUND, "step_index": -1}, "step_index", "0 to 32767"),
    ],
)
def test_a_proposal_that_cannot_be_is_refused_by_the_name_of_the_fault(
    project: Project, values: dict[str, Any], field: str, words: str
) -> None:
    task = make_supervised_task(project)
    with pytest.raises(BadInputError) as raised:
        propose(task=task, by=make_agent(project), **values)
    assert list(raised.value.errors) == [field]
    assert words in str(raised.value)
    assert not Proposal.objects.exists()


def test_arguments_deeper_than_anybody_reads_are_refused(project: Project) -> None:
    deep: dict[str, Any] = {}
    for _ in range(20):
        deep = {"in": deep}
    with pytest.raises(BadInputError, match="16 levels"):
        propose(
            task=make_supervised_task(project),
            action={"kind": "tool", "tool": "x", "arguments": deep},
            by=make_agent(project),
        )


def test_a_task_the_platform_does_itself_takes_no_proposal(project: Project, worker: Worker) -> None:
    with pytest.raises(NotSupervisedError, match="whose tasks the platform does itself"):
        propose(task=make_task(project, worker), action=REFUND, by=make_agent(project))


def test_a_task_that_is_handed_in_or_taken_over_takes_no_proposal(project: Project, alice: User) -> None:
    over = make_supervised_task(project, state=Task.State.SCORING)
    with pytest.raises(NotSupervisedError, match="wanted state queued, found scoring"):
        propose(task=over, action=REFUND, by=make_agent(project))
    proposal = make_proposal(project)
    decide(proposal=proposal, decision="take_over", answer="I did it by hand.", by=alice)
    with pytest.raises(NotSupervisedError, match="user:alice took it over"):
        propose(task=proposal.task, action=REFUND, by=make_agent(project))


def test_an_agent_cannot_flood_the_queue(project: Project) -> None:
    task = make_supervised_task(project)
    for _ in range(MAX_PENDING):
        make_proposal(project, task)
    with pytest.raises(ConflictError, match="20 proposals"):
        propose(task=task, action=REFUND, by=make_agent(project))


def test_a_rule_nobody_can_read_lets_nothing_through(project: Project) -> None:
    task = make_supervised_task(project, {"tool": ["x"]})
    with pytest.raises(ConflictError, match="cannot be read"):
        propose(task=task, action=REFUND, by=make_agent(project))


def test_who_may_not_work_in_the_project_proposes_nothing(project: Project, bob: User, charlie: User) -> None:
    task = make_supervised_task(project)
    with pytest.raises(NotAllowedError):
        propose(task=task, action=REFUND, by=bob)
    with pytest.raises(NotFoundError, match="no project shop"):
        propose(task=task, action=REFUND, by=charlie)


# --- deciding ---


@pytest.mark.parametrize(
    ("decision", "said", "state", "outcome", "permitted"),
    [
        ("approve", {}, "approved", "go_on", REFUND),
        ("reject", {"reason": "Too much."}, "rejected", "stop", None),
        ("edit", {"action": SMALLER}, "edited", "go_on", SMALLER),
        ("hint", {"hint": "Read the house rules."}, "hinted", "ask_again", None),
        ("take_over", {"answer": "Done by hand."}, "taken_over", "hand_over", None),
    ],
)
def test_a_person_decides(
    project: Project, bob: User, decision: str, said: Any, state: str, outcome: str, permitted: Any
) -> None:
    proposal = make_proposal(project)
    decide(proposal=proposal, decision=decision, by=bob, **said)
    for found in (proposal, Proposal.objects.get()):
        assert (found.state, found.outcome, found.permitted) == (state, outcome, permitted)
        assert (found.decided_by, found.decision) == ("user:bob", said)
        assert found.decided_at is not None
    assert kinds_of(proposal) == ["proposal.made", f"proposal.{state}"]
    entry = AuditEntry.objects.get(kind=f"proposal.{state}")
    assert entry.actor == "user:bob"
    assert not {"reason", "hint", "answer", "action"} & set(entry.payload)


@pytest.mark.parametrize(
    ("decision", "said", "field"),
    [
        ("allow", {}, "decision"),
        ("reject", {}, "reason"),
        ("reject", {"reason": " "}, "reason"),
        ("reject", {"reason": "x" * 1001}, "reason"),
        ("reject", {"reason": "no", "hint": "x"}, "hint"),
        ("approve", {"reason": "fine"}, "reason"),
        ("hint", {}, "hint"),
        ("hint", {"hint": "x\x00"}, "hint"),
        ("take_over", {}, "answer"),
        ("edit", {}, "action"),
        ("edit", {"action": REFUND}, "action"),
        ("edit", {"action": {"kind": "message", "text": "Hello."}}, "action"),
        ("edit", {"action": {"kind": "tool"}}, "action"),
    ],
)
def test_a_decision_that_cannot_be_leaves_the_proposal_open(
    project: Project, bob: User, decision: str, said: Any, field: str
) -> None:
    proposal = make_proposal(project)
    with pytest.raises(BadInputError) as raised:
        decide(proposal=proposal, decision=decision, by=bob, **said)
    assert list(raised.value.errors) == [field]
    proposal.refresh_from_db()
    assert proposal.state == "pending"


def test_who_comes_second_is_told_who_was_first(project: Project, alice: User, bob: User) -> None:
    proposal = make_proposal(project)
    late = Proposal.objects.get()
    decide(proposal=proposal, decision="approve", by=alice)
    with pytest.raises(AlreadyDecidedError, match=r"approved already: user:alice was first"):
        decide(proposal=late, decision="reject", reason="No.", by=bob)
    assert Proposal.objects.get().state == "approved"


def test_agents_decide_nothing_and_nobody_decides_their_own(project: Project, alice: User) -> None:
    proposal = make_proposal(project)
    with pytest.raises(NotYoursToDecideError, match="a person"):
        decide(proposal=proposal, decision="approve", by=make_agent(project))
    own = propose(task=proposal.task, action=REFUND, by=alice)
    with pytest.raises(NotYoursToDecideError, match="proposed this yourself"):
        decide(proposal=own, decision="approve", by=alice)
    assert set(Proposal.objects.values_list("state", flat=True)) == {"pending"}


def test_who_only_looks_or_is_no_member_decides_nothing(project: Project, charlie: User) -> None:
    proposal = make_proposal(project)
    vera = make_user("vera")
    Member.objects.create(project=project, user=vera, role=Role.VIEWER)
    with pytest.raises(NotAllowedError):
        decide(proposal=proposal, decision="approve", by=vera)
    with pytest.raises(NotFoundError, match="no project shop"):
        decide(proposal=proposal, decision="approve", by=charlie)


def test_taking_over_answers_everything_else_the_agent_asked_about_that_task(project: Project, alice: User) -> None:
    proposal = make_proposal(project)
    second = make_proposal(project, proposal.task)
    elsewhere = make_proposal(project, make_supervised_task(project))
    decide(proposal=proposal, decision="take_over", answer="Done by hand.", by=alice)
    states = dict(Proposal.objects.values_list("pk", "state"))
    assert states == {proposal.pk: "taken_over", second.pk: "rejected", elsewhere.pk: "pending"}


# --- the clock ---


@pytest.mark.parametrize(
    ("on_timeout", "outcome", "permitted", "task_state"),
    [
        ("approve", "go_on", REFUND, "queued"),
        ("reject", "stop", None, "queued"),
        ("fail", "fail", None, "failed"),
    ],
)
def test_when_nobody_came_the_rule_decides_once(
    project: Project, on_timeout: str, outcome: str, permitted: Any, task_state: str
) -> None:
    proposal = make_proposal(project, make_supervised_task(project, {"on_timeout": on_timeout}))
    assert expire_proposals() == []
    let_time_pass(proposal)
    assert [found.pk for found in expire_proposals()] == [proposal.pk]
    assert expire_proposals() == []
    found = Proposal.objects.select_related("task").get()
    assert (found.state, found.outcome, found.permitted, found.decided_by) == ("expired", outcome, permitted, "sweep")
    assert found.task.state == task_state
    assert kinds_of(proposal) == ["proposal.made", "proposal.expired"]


def test_a_rule_changed_later_does_not_change_what_was_promised(project: Project) -> None:
    proposal = make_proposal(project, make_supervised_task(project, {"on_timeout": "reject"}))
    Worker.objects.update(supervision={"on_timeout": "approve"})
    let_time_pass(proposal)
    expire_proposals()
    assert Proposal.objects.get().outcome == "stop"


def test_what_waits_at_a_task_that_ended_is_over(project: Project) -> None:
    proposal = make_proposal(project, make_supervised_task(project, {"on_timeout": "approve"}))
    Task.objects.filter(pk=proposal.task_id).update(state=Task.State.CANCELLED)
    expire_proposals()
    found = Proposal.objects.get()
    assert (found.state, found.outcome) == ("expired", "stop")
    assert found.decision["why"] == "the task is cancelled"


def test_cancelling_decides_what_waits_and_whoever_comes_later_is_told_so(project: Project, alice: User) -> None:
    proposal = make_proposal(project)
    elsewhere = make_proposal(project, make_supervised_task(project))
    flow.cancel(task=proposal.task, by=alice)
    found = Proposal.objects.get(pk=proposal.pk)
    assert (found.state, found.outcome, found.permitted, found.decided_by) == ("expired", "stop", None, "user:alice")
    with pytest.raises(AlreadyDecidedError, match="the task is cancelled"):
        decide(proposal=proposal, decision="approve", by=alice)
    assert kinds_of(proposal) == ["proposal.made", "proposal.expired"]
    assert Proposal.objects.get(pk=elsewhere.pk).state == "pending"


@pytest.mark.parametrize(("decision", "answer"), [("approve", ""), ("take_over", "By hand.")])
def test_a_word_for_a_task_that_ended_before_the_sweep_came_lets_nothing_through(
    project: Project, alice: User, decision: str, answer: str
) -> None:
    proposal = make_proposal(project)
    Task.objects.update(state=Task.State.FAILED)
    with pytest.raises(AlreadyDecidedError, match="cannot be decided any more: the task is failed"):
        decide(proposal=proposal, decision=decision, answer=answer, by=alice)
    assert Proposal.objects.get().state == "pending"
    take_models_word(proposal, Decision("approve", "Why not."), by="agent:llm:m", model="m")
    assert Proposal.objects.get().state == "pending"
    assert [found.outcome for found in expire_proposals()] == ["stop"]


def in_threads(*works: Callable[[], object]) -> Counter[str]:
    """Start all at once; how often each came through, by outcome."""
    start, lock, outcomes = threading.Barrier(len(works)), threading.Lock(), Counter[str]()

    def work(do: Callable[[], object]) -> None:
        try:
            connection.ensure_connection()
            start.wait(timeout=120)
            try:
                said = "done" if do() not in (None, []) else "nothing"
            except AlreadyDecidedError as error:
                said = "told who was first" if "was first" in str(error) else "told nothing"
            with lock:
                outcomes[said] += 1
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(do,)) for do in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return outcomes


@pytest.mark.django_db(transaction=True)
def test_managers_and_the_clock_race_and_each_proposal_is_decided_once() -> None:
    project = make_project()
    people = [make_user(f"manager{number}") for number in range(4)]
    Member.objects.bulk_create(Member(project=project, user=user, role=Role.MANAGER) for user in people)
    winners: Counter[str] = Counter()
    for _ in range(12):
        proposal = make_proposal(project, make_supervised_task(project))
        let_time_pass(proposal)

        def approve(user: User, pk: int = proposal.pk) -> object:
            row = Proposal.objects.select_related("project").get(pk=pk)
            return decide(proposal=row, decision="approve", by=user)

        def take_over(user: User, pk: int = proposal.pk) -> object:
            row = Proposal.objects.select_related("project").get(pk=pk)
            return decide(proposal=row, decision="take_over", answer="By hand.", by=user)

        outcomes = in_threads(
            *(lambda user=user: approve(user) for user in people[:2]),
            *(lambda user=user: take_over(user) for user in people[2:]),
            expire_proposals,
            expire_proposals,
        )
        assert outcomes["done"] == 1, outcomes
        assert outcomes["told nothing"] == 0
        assert len(kinds_of(proposal)) == 2
        winners[Proposal.objects.get(pk=proposal.pk).decided_by.partition(":")[0]] += 1
    assert winners.total() == 12


@pytest.mark.django_db(transaction=True)
def test_find_then_update_would_decide_twice() -> None:
    """The control: what the compare-and-set is for."""
    project = make_project()
    counts = []
    for _ in range(10):
        pk = make_proposal(project, make_supervised_task(project)).pk
        ready = threading.Barrier(4)

        def find_then_update(pk: int = pk, ready: threading.Barrier = ready) -> bool:
            row = Proposal.objects.get(pk=pk)
            ready.wait(timeout=120)
            if row.state != "pending":
                return False
            row.state, row.decided_at = Proposal.State.APPROVED, timezone.now()
            row.save(update_fields=["state", "decided_at"])
            return True

        counts.append(in_threads(*[lambda: find_then_update() or None] * 4)["done"])
    assert max(counts) > 1
