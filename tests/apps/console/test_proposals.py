"""Approvals: who sees what, what every button does without a script, and what it costs."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Member, Project, Role, User
from apps.console.forms_proposals import EditForm
from apps.console.selectors import proposals
from apps.console.selectors.proposals import PAGE, find_decided, find_leaves
from apps.supervision.models import Proposal
from apps.supervision.services import decide
from apps.workers.models import Worker
from tests.apps.console.builders import sign_in
from tests.apps.supervision.builders import REFUND, make_agent, make_proposal, make_supervised_task
from tests.factories import make_project, make_user

pytestmark = pytest.mark.django_db


def path(name: str, *args: object, slug: str = "shop") -> str:
    return reverse(f"console:{name}", args=(slug, *args))


def page_of(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, answer
    return answer.content.decode()


def test_the_queue_says_what_is_wanted_in_facts_and_shows_the_menus_count(project: Project, bob: User) -> None:
    nested = {"kind": "tool", "tool": "refund", "arguments": {"order": {"lines": [{"price": 5}, {"price": 7}]}}}
    make_proposal(project, action=nested, context="Charged twice.", risk="Money is gone.", step_index=2)
    page = page_of(sign_in(bob), path("proposal-list"))
    for words in ("Call refund", "order lines 2 price", "Charged twice.", "Money is gone.", "step 3", "4 min"):
        assert words in page, words
    assert "{&quot;" not in re.sub(r'data-key-table="[^"]*"', "", page)
    assert '<span class="count">1<' in page


def test_what_an_agent_wrote_runs_and_hides_nothing(project: Project, bob: User) -> None:
    evil = "<img src=x onerror=alert(1)>\u202egnp"
    proposal = make_proposal(
        project,
        action={"kind": "tool", "tool": "refund", "arguments": {evil: evil}},
        context=evil,
        risk=evil,
    )
    bob_client = sign_in(bob)
    for address in (path("proposal-list"), path("proposal", proposal.pk)):
        page = page_of(bob_client, address)
        assert "<img" not in page
        assert "U+202E" in page
    decide(proposal=proposal, decision="hint", hint=evil, by=bob)
    for address in (path("proposal-decided"), path("proposal", proposal.pk), path("proposal-list")):
        assert "<img" not in page_of(bob_client, address)


@pytest.mark.parametrize(
    ("sent", "state", "decision"),
    [
        ({"decision": "approve"}, "approved", {}),
        ({"decision": "reject", "reason": "Too much."}, "rejected", {"reason": "Too much."}),
        ({"decision": "hint", "hint": "House rule 4."}, "hinted", {"hint": "House rule 4."}),
        ({"decision": "take_over", "answer": "Done by hand."}, "taken_over", {"answer": "Done by hand."}),
        (
            {"decision": "edit", "arg-0": "17", "arg-1": "20.5", "arg-2": "no"},
            "edited",
            {"action": {**REFUND, "arguments": {"order": 17, "amount": 20.5, "notify": False}}},
        ),
    ],
)
def test_every_form_works_without_a_script(project: Project, bob: User, sent: Any, state: str, decision: Any) -> None:
    proposal = make_proposal(project)
    client = sign_in(bob)
    answer = client.post(path("proposal-decide", proposal.pk), sent)
    assert (answer.status_code, answer.headers["Location"]) == (302, path("proposal-list") + "#queue")
    found = Proposal.objects.get()
    assert (found.state, found.decided_by, found.decision) == (state, "user:bob", decision)
    assert "Call refund" in page_of(client, path("proposal-list"))  # among what was just decided


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"decision": "reject", "reason": " "}, "This field is required"),
        ({"decision": "hint", "hint": "x" * 4001}, "at most 4000"),
        ({"decision": "edit", "arg-0": "many", "arg-1": "20.5", "arg-2": "no"}, "Enter a whole number"),
        ({"decision": "edit", "arg-0": "17", "arg-1": "84.5", "arg-2": "yes"}, "found the same"),
    ],
)
def test_what_was_typed_survives_a_refusal_and_the_form_stands_open(
    project: Project, bob: User, sent: dict[str, str], words: str
) -> None:
    proposal = make_proposal(project)
    answer = sign_in(bob).post(path("proposal-decide", proposal.pk), sent)
    page = answer.content.decode()
    assert answer.status_code == 400
    assert words in page
    assert page.count("data-keep open>") == 1
    assert all(value in page for name, value in sent.items() if name != "decision")
    assert Proposal.objects.get().state == "pending"


def test_a_refused_form_opened_again_is_the_proposals_page(project: Project, bob: User) -> None:
    proposal = make_proposal(project)
    client = sign_in(bob)
    assert "Call refund" in page_of(client, path("proposal-decide", proposal.pk))
    fragment = page_of(client, path("proposal-decide", proposal.pk) + "?fragment=proposal")
    assert "<html" not in fragment
    assert Proposal.objects.get().state == "pending"


def test_who_comes_second_is_told_who_was_first(project: Project, alice: User, bob: User) -> None:
    proposal = make_proposal(project)
    decide(proposal=proposal, decision="approve", by=alice)
    answer = sign_in(bob).post(
        path("proposal-decide", proposal.pk), {"decision": "reject", "reason": "No."}, follow=True
    )
    page = answer.content.decode()
    assert "user:alice was first" in page
    assert "Approved" in page
    assert Proposal.objects.get().state == "approved"


def test_the_decided_are_listed_with_who_and_how_fast(project: Project, bob: User) -> None:
    proposal = make_proposal(project)
    decide(proposal=proposal, decision="reject", reason="Too much.", by=bob)
    Proposal.objects.update(created_at=timezone.now() - timedelta(seconds=95))
    page = page_of(sign_in(bob), path("proposal-decided"))
    for words in ("Rejected", "bob", "1 min", "amount 84.5"):
        assert words in page, words


def test_the_decided_go_on_where_the_last_page_ended(project: Project, bob: User) -> None:
    task = make_supervised_task(project)
    for _ in range(PAGE + 5):
        decide(proposal=make_proposal(project, task), decision="approve", by=bob)
    Proposal.objects.filter(pk__in=Proposal.objects.order_by("id")[:20].values("pk")).update(decided_at=timezone.now())
    first = find_decided(project, before=None)
    second = find_decided(project, before=first[PAGE - 1].row.pk)
    seen = [view.row.pk for view in [*first[:PAGE], *second]]
    assert len(first) == PAGE + 1
    assert sorted(seen) == sorted(Proposal.objects.values_list("pk", flat=True))
    assert find_decided(project, before=10**9) == []


def test_who_only_looks_is_offered_nothing(project: Project) -> None:
    proposal = make_proposal(project)
    vera = make_user("vera")
    Member.objects.create(project=project, user=vera, role=Role.VIEWER)
    client = sign_in(vera)
    for address in (path("proposal-list"), path("proposal", proposal.pk), path("proposal-rules")):
        page = page_of(client, address)
        assert "proposal-decide" not in page
        assert "/decide/" not in page
        assert "rules/" + str(proposal.task.worker_id) not in page
    assert client.post(path("proposal-decide", proposal.pk), {"decision": "approve"}).status_code == 403
    assert client.post(path("proposal-rules-change", proposal.task.worker_id), {}).status_code == 403
    assert Proposal.objects.get().state == "pending"


def test_an_outsider_and_another_project_find_nothing(project: Project, charlie: User) -> None:
    proposal = make_proposal(project)
    other = make_project("other")
    Member.objects.create(project=other, user=charlie, role=Role.OWNER)
    client = sign_in(charlie)
    for slug in ("shop", "other"):
        assert client.get(path("proposal", proposal.pk, slug=slug)).status_code == 404
        sent = client.post(path("proposal-decide", proposal.pk, slug=slug), {"decision": "approve"})
        assert sent.status_code == 404
        assert client.post(path("proposal-rules-change", proposal.task.worker_id, slug=slug), {}).status_code == 404
    for name in ("proposal-list", "proposal-decided", "proposal-rules", "proposal-count"):
        assert client.get(path(name)).status_code == 404
        assert "Call refund" not in page_of(client, path(name, slug="other"))


def test_nobody_is_offered_what_came_under_their_own_name(project: Project, alice: User) -> None:
    proposal = make_proposal(project)
    Proposal.objects.update(proposed_by=alice)
    page = page_of(sign_in(alice), path("proposal-list"))
    assert "You proposed this yourself" in page
    assert f"/proposals/{proposal.pk}/decide/" not in page


@pytest.mark.parametrize("sent", [{}, {"decision": "explode"}])
def test_a_decision_nobody_knows_is_not_found(project: Project, bob: User, sent: dict[str, str]) -> None:
    assert sign_in(bob).post(path("proposal-decide", make_proposal(project).pk), sent).status_code == 404


def test_an_empty_queue_says_what_to_do(project: Project, bob: User) -> None:
    client = sign_in(bob)
    assert "tentalis worker create" in page_of(client, path("proposal-list"))
    assert "No worker that could ask" in page_of(client, path("proposal-rules"))
    assert "Nothing was decided yet" in page_of(client, path("proposal-decided"))
    make_supervised_task(project)
    assert "See what must be asked" in page_of(client, path("proposal-list"))


def test_rules_are_read_in_words_set_and_taken_away(project: Project, alice: User) -> None:
    worker = make_supervised_task(project).worker
    client = sign_in(alice)
    page = page_of(client, path("proposal-rules"))
    assert "Wait for a person: calls of refund, mail.*, messages, answers." in page
    assert "After 5 min without a word it may not act." in page
    address = path("proposal-rules-change", worker.pk)
    sent = {"tools": "refund\r\n shell.* \n\n", "except_tools": "", "deadline_s": "1 min", "on_timeout": "fail"}
    sent["model_decides"] = "on"
    assert client.post(address, sent).status_code == 302
    worker.refresh_from_db()
    assert worker.supervision == {
        "tools": ["refund", "shell.*"],
        "except_tools": [],
        "messages": False,
        "answers": False,
        "agents_decide": False,
        "model_decides": True,
        "deadline_s": 60,
        "on_timeout": "fail",
    }
    wrong = client.post(address, sent | {"tools": "x" * 200})
    assert wrong.status_code == 400
    assert "1 to 100 printable characters" in wrong.content.decode()
    assert client.post(address, {"deadline_s": "60 s", "on_timeout": "fail"}).status_code == 302
    assert Worker.objects.get(pk=worker.pk).supervision == {}


def test_pages_cost_the_same_however_much_waits(project: Project, bob: User) -> None:
    client = sign_in(bob)
    task = make_supervised_task(project)
    decide(proposal=make_proposal(project, task), decision="approve", by=bob)
    make_proposal(project, task)

    def count(address: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            page_of(client, address)
        return len(queries)

    addresses = [path("proposal-list"), path("proposal-decided"), path("proposal-count")]
    count(addresses[0])
    before = [count(address) for address in addresses]
    for _ in range(8):
        make_proposal(project, task)
        decide(proposal=make_proposal(project, make_supervised_task(project)), decision="approve", by=bob)
    assert [count(address) for address in addresses] == before
    assert max(before) <= 12, before


def test_an_edit_keeps_types_and_touches_nothing_it_does_not_show(project: Project) -> None:
    arguments: dict[str, Any] = {
        "text": "a\nb", "none": None, "whole": 3, "part": 1.5, "flag": True, "empty": {}, "list": [1, {"deep": "x"}],
    }  # fmt: skip
    proposal = make_proposal(project, action={"kind": "tool", "tool": "refund", "arguments": arguments})
    form = EditForm(proposal=proposal)
    assert form.is_possible
    sent = {name: str(field.initial) for name, field in form.fields.items()}
    same = EditForm(sent, proposal=proposal)
    assert same.is_valid(), same.errors
    assert same.said["action"] == proposal.action
    changed = EditForm({**sent, "arg-7": "y", "arg-0": "a\r\nc", "arg-2": "4"}, proposal=proposal)
    assert changed.is_valid(), changed.errors
    assert changed.said["action"]["arguments"] == arguments | {
        "text": "a\nc",
        "whole": 4,
        "list": [1, {"deep": "y"}],
    }
    assert proposal.action["arguments"] == arguments


def test_an_action_too_large_to_show_cannot_be_edited_unseen(project: Project, bob: User) -> None:
    wide = {"kind": "tool", "tool": "refund", "arguments": {f"n{number}": number for number in range(70)}}
    proposal = make_proposal(project, action=wide)
    assert not EditForm(proposal=proposal).is_possible
    page = page_of(sign_in(bob), path("proposal-list"))
    assert "10 more values are not shown" in page
    assert "Approve with these changes" not in page


def test_leaves_are_named_by_their_place() -> None:
    leaves = list(find_leaves({"a_b": [{"c": 1}, []], "d": None}))
    assert [(leaf.name, leaf.said) for leaf in leaves] == [("a b 1 c", "1"), ("a b 2", "nothing"), ("d", "nothing")]


def test_a_long_context_shows_its_end_and_folds_the_rest(project: Project) -> None:
    proposal = make_proposal(project, context="".join(f"line {number}\n" for number in range(300)))
    view = proposals.show_proposal(proposal)
    assert view.head + view.tail == proposal.context
    assert view.tail.endswith("line 299\n")
    assert view.tail.startswith("line 288\n")
    assert proposals.find_tail("one line") == 0
    assert proposals.find_tail("a\nb") == 0
    assert proposals.find_tail("x" * 2000) == 2000 - proposals.TAIL_CHARS


def test_the_count_is_a_fragment_of_its_own(project: Project, bob: User) -> None:
    client = sign_in(bob)
    assert "count" not in page_of(client, path("proposal-count")).replace("proposal_count", "").replace("s/count/", "")
    make_proposal(project)
    assert ">1<" in page_of(client, path("proposal-count"))
    agent = make_agent(project)
    assert agent.is_agent
