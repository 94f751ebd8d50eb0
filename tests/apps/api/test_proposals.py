"""Proposals over REST: asked, waited for, decided."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from pytest_django.live_server_helper import LiveServer

from apps.accounts.models import Member, Project, Role, User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.api.waiting import MAX_WAIT_S
from apps.supervision import waiting
from apps.supervision.models import Proposal
from apps.supervision.services import decide, propose
from apps.workers.models import Worker
from tentalis.client import AsyncClient, Client, ConflictError
from tests.apps.supervision.builders import REFUND, RULES, make_agent, make_proposal, make_supervised_task
from tests.e2e.server import serve
from tests.edges.caller import Caller
from tests.factories import make_project, make_user

CallAs = Callable[..., Caller]


@pytest.fixture
def agent(project: Project) -> User:
    return make_agent(project)


def test_an_agent_asks_and_a_manager_answers(project: Project, agent: User, call_as: CallAs, as_bob: Caller) -> None:
    task = make_supervised_task(project)
    claw = call_as(agent)
    asked = claw.post(
        "proposals", {"task": task.pk, "action": REFUND, "step_index": 1, "context": "Twice.", "risk": "Money."}
    )
    assert asked.status == 201, asked
    path = f"proposals/{asked.body['id']}"
    assert asked.headers["Location"] == f"/api/v1/{path}"
    assert (asked.body["outcome"], asked.body["permitted"], asked.body["worker"]) == ("wait", None, "claw")
    assert [row["id"] for row in as_bob.get("proposals?state=pending&project=shop").body["results"]] == [
        asked.body["id"]
    ]
    smaller = REFUND | {"arguments": {"order": 17, "amount": 20}}
    answered = as_bob.post(f"{path}/decide", {"decision": "edit", "action": smaller})
    assert answered.status == 200, answered
    seen = claw.get(path).body
    assert (seen["state"], seen["outcome"], seen["permitted"]) == ("edited", "go_on", smaller)
    late = as_bob.post(f"{path}/decide", {"decision": "approve"})
    assert (late.status, late.body["code"]) == (409, "already_decided")
    assert "user:bob was first" in late.body["detail"]


def test_where_no_rule_asks_the_answer_is_yes_at_once(project: Project, agent: User, call_as: CallAs) -> None:
    task = make_supervised_task(project, {})
    asked = call_as(agent).post("proposals", {"task": task.pk, "action": REFUND})
    assert (asked.body["outcome"], asked.body["permitted"], asked.body["decided_by"]) == ("go_on", REFUND, "policy")


def test_the_same_request_again_asks_once(project: Project, agent: User, call_as: CallAs) -> None:
    task = make_supervised_task(project)
    claw = call_as(agent)
    body = {"task": task.pk, "action": REFUND}
    first, second = claw.post("proposals", body, key="k"), claw.post("proposals", body, key="k")
    assert first.body["id"] == second.body["id"]
    assert second.headers["Idempotent-Replayed"] == "true"
    assert Proposal.objects.count() == 1


def test_an_agent_sees_and_decides_nothing_of_anothers(project: Project, call_as: CallAs) -> None:
    proposal = make_proposal(project)
    other = call_as(make_agent(project, "paw"))
    assert other.get(f"proposals/{proposal.pk}").status == 404
    assert other.get("proposals").body["results"] == []
    for name, status in (("paw", 404), ("claw", 403)):
        answer = call_as(make_agent(project, name)).post(f"proposals/{proposal.pk}/decide", {"decision": "approve"})
        assert answer.status == status, answer
    assert Proposal.objects.get().state == "pending"
    Worker.objects.update(supervision=RULES | {"agents_decide": True})
    told = other.post(f"proposals/{proposal.pk}/decide", {"decision": "approve"}).body
    assert (told["state"], told["decided_by"]) == ("approved", "agent:paw")


def test_other_projects_proposals_are_not_there(project: Project, call_as: CallAs, charlie: User) -> None:
    proposal = make_proposal(project)
    other = make_project("other")
    Member.objects.create(project=other, user=charlie, role=Role.OWNER)
    outside = call_as(charlie)
    assert outside.get(f"proposals/{proposal.pk}").status == 404
    assert outside.post(f"proposals/{proposal.pk}/decide", {"decision": "approve"}).status == 404
    assert outside.post("proposals", {"task": proposal.task_id, "action": REFUND}).status == 404
    assert outside.get("proposals").body["results"] == []


def test_nobody_decides_what_came_under_their_own_name(project: Project, alice: User, as_alice: Caller) -> None:
    own = propose(task=make_supervised_task(project), action=REFUND, by=alice)
    answer = as_alice.post(f"proposals/{own.pk}/decide", {"decision": "approve"})
    assert (answer.status, answer.body["code"]) == (403, "not_yours_to_decide")


@pytest.mark.parametrize("wait", ["-1", "31", "x", "1.5", "٣", "9999", ""])
def test_a_wait_that_cannot_be_is_refused(project: Project, agent: User, call_as: CallAs, wait: str) -> None:
    answer = call_as(agent).get(f"proposals/{make_proposal(project).pk}?wait={wait}")
    assert answer.status == 400, answer
    assert f"0 to {MAX_WAIT_S}" in answer.body["errors"]["wait"][0]


def test_supervision_of_a_worker_is_set_and_refused_over_rest(project: Project, as_alice: Caller) -> None:
    made = as_alice.post("workers", {"project": "shop", "name": "claw", "kind": "outside"})
    assert made.status == 201, made
    path = f"workers/{made.body['id']}"
    assert as_alice.patch(path, {"supervision": {"tools": ["refund"]}}).body["supervision"] == {"tools": ["refund"]}
    wrong = as_alice.patch(path, {"supervision": {"on_timeout": "wait"}})
    assert (wrong.status, "approve, reject, fail" in wrong.body["errors"]["supervision"][0]) == (400, True)
    inside = as_alice.post(
        "workers", {"project": "shop", "name": "in", "kind": "echo", "supervision": {"answers": True}}
    )
    assert inside.status == 400, inside
    assert "wanted an outside one, or a kind that takes turns" in inside.body["errors"]["supervision"][0]


# --- waiting, against a real server ---


@pytest.fixture
def shop(transactional_db: None) -> Project:
    return make_project()


def client_of(user: User, live_server: LiveServer) -> Client:
    return Client(live_server.url, create_token(user=user, name="t", scopes=Right.values, by=user)[1])


def in_background(do: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []

    def work() -> None:
        found.append(do())
        found.append(time.monotonic())

    thread = threading.Thread(target=work)
    thread.start()
    return thread, found


def test_who_waits_is_answered_as_soon_as_somebody_decides(shop: Project, live_server: LiveServer) -> None:
    proposal = make_proposal(shop)
    with client_of(make_agent(shop), live_server) as claw:
        thread, found = in_background(lambda: claw.get_proposal(proposal.pk, wait_s=20))
        wait_until_looked_for(proposal)
        assert not found
        decided_at = time.monotonic()
        decide(proposal=proposal, decision="approve", by=make_user("bob"))
        thread.join(timeout=20)
    answer, answered_at = found
    assert (answer["state"], answer["permitted"]) == ("approved", REFUND)
    assert answered_at - decided_at < 5


def test_a_wait_ends_with_its_time_and_what_is_decided_waits_for_nothing(
    shop: Project, live_server: LiveServer
) -> None:
    proposal = make_proposal(shop)
    with client_of(make_agent(shop), live_server) as claw:
        began = time.monotonic()
        assert claw.get_proposal(proposal.pk, wait_s=1)["outcome"] == "wait"
        assert 1 <= time.monotonic() - began < 10
        decide(proposal=proposal, decision="approve", by=make_user("bob"))
        began = time.monotonic()
        assert claw.get_proposal(proposal.pk, wait_s=20)["outcome"] == "go_on"
        assert time.monotonic() - began < 10


def test_who_was_put_out_while_waiting_is_refused(shop: Project, live_server: LiveServer) -> None:
    proposal = make_proposal(shop)
    agent = make_agent(shop)
    with client_of(agent, live_server) as claw:
        thread, found = in_background(lambda: _status(lambda: claw.get_proposal(proposal.pk, wait_s=20)))
        wait_until_looked_for(proposal)
        Member.objects.filter(user=agent).delete()
        decide(proposal=proposal, decision="approve", by=make_user("bob"))
        thread.join(timeout=20)
    assert found[0] == 403


def test_a_second_manager_is_told_over_the_client(shop: Project, live_server: LiveServer) -> None:
    proposal = make_proposal(shop)
    with client_of(make_user("alice"), live_server) as alice, client_of(make_user("bob"), live_server) as bob:
        alice.decide_proposal(proposal.pk, decision="hint", hint="House rule 4.")
        with pytest.raises(ConflictError, match="user:alice was first"):
            bob.decide_proposal(proposal.pk, decision="approve")
        assert [row["state"] for row in bob.list_proposals(state="hinted")["results"]] == ["hinted"]


@pytest.mark.thorough
def test_forty_who_wait_hold_no_database_connection_and_all_hear(shop: Project) -> None:
    rows = [make_proposal(shop, make_supervised_task(shop)) for _ in range(40)]
    agent = make_agent(shop)
    token = create_token(user=agent, name="t", scopes=[Right.ATTEMPTS_READ], by=agent)[1]

    async def wait_for_all(address: str) -> list[str]:
        async with AsyncClient(address, token, timeout_s=60) as client:
            found = await asyncio.gather(*(client.get_proposal(row.pk, wait_s=30) for row in rows))
        return [answer["outcome"] for answer in found]

    with serve() as address:
        thread, found = in_background(lambda: asyncio.run(wait_for_all(address)))
        deadline = time.monotonic() + 120
        while waiting.boards.count < len(rows) and time.monotonic() < deadline:
            threading.Event().wait(0.05)
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
            sessions = cursor.fetchone()[0]
        for row in rows:
            decide(proposal=row, decision="approve", by=make_user("bob"))
        thread.join(timeout=40)
    assert found[0] == ["go_on"] * len(rows)
    assert sessions <= 4, sessions  # this test's, and the one that looks for all


def _status(do: Callable[[], Any]) -> int:
    from tentalis.client import ApiError

    try:
        do()
    except ApiError as error:
        return error.status
    return 200


def wait_until_looked_for(proposal: Proposal) -> None:
    """Until the server looks for this proposal's decision: Postgres has seen the query of another session."""
    looks = "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE %s"
    deadline = time.monotonic() + 120
    pattern = f'SELECT "supervision_proposal"."id"%IN ({proposal.pk})%pending%'
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute(looks, [pattern])
            if cursor.fetchone()[0]:
                return
        threading.Event().wait(0.05)
    raise AssertionError("the server never looked for the decision")
