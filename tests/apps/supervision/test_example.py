"""The example agent, against a real server: what it does with each word it is given."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.supervision.models import Proposal
from apps.supervision.services import decide, expire_proposals
from apps.tasks.models import Attempt, Task
from integrations.supervised.agent import TaskFailedError, work
from tentalis.client import Client
from tests.apps.supervision.builders import let_time_pass, make_agent, make_supervised_task
from tests.factories import make_project, make_user

PLAN: list[dict[str, Any]] = [
    {"kind": "tool", "tool": "lookup", "arguments": {"order": 17}},
    {"kind": "tool", "tool": "refund", "arguments": {"order": 17, "amount": 84.5}},
    {"kind": "answer", "text": "The money is on its way."},
]


@pytest.fixture
def task(transactional_db: None) -> Task:
    return make_supervised_task(make_project())


class Boss:
    """Decides what comes, one word after the other, in a thread of its own; counts what was asked."""

    def __init__(self, *words: Callable[[Proposal], object]) -> None:
        self.words = list(words)
        self.seen: list[str] = []
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> "Boss":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(timeout=60)
        assert not self._thread.is_alive()

    def _work(self) -> None:
        from django.db import connection

        try:
            for word in self.words:
                for _ in range(600):
                    found = Proposal.objects.select_related("project").filter(state="pending").first()
                    if found is not None:
                        break
                    threading.Event().wait(0.05)
                assert found is not None
                self.seen.append(found.tool or found.kind)
                word(found)
        finally:
            connection.close()


def say(decision: str, **said: Any) -> Callable[[Proposal], object]:
    return lambda proposal: decide(proposal=proposal, decision=decision, by=make_user("bob"), **said)


def run_agent(live_server: LiveServer, task: Task) -> tuple[Attempt, list[Any]]:
    agent = make_agent(task.project)
    token = create_token(user=agent, name="t", scopes=[Right.ATTEMPTS_READ, Right.ATTEMPTS_WRITE], by=agent)[1]
    used: list[Any] = []

    def use(action: dict[str, Any]) -> str:
        used.append((action["tool"], action["arguments"]))
        return "done"

    with Client(live_server.url, token) as client:
        handed_in = work(client, task.pk, PLAN, use=use)
    return Attempt.objects.get(pk=handed_in["id"]), used


def test_it_does_what_it_may_and_learns_what_it_may_not(live_server: LiveServer, task: Task) -> None:
    smaller = {**PLAN[1], "arguments": {"order": 17, "amount": 20.0}}
    with Boss(say("edit", action=smaller), say("approve")) as boss:
        attempt, used = run_agent(live_server, task)
    assert boss.seen == ["refund", "answer"]
    assert used == [("lookup", {"order": 17}), ("refund", {"order": 17, "amount": 20.0})]
    assert attempt.answer == "The money is on its way."
    assert [(step.kind, step.tool_name) for step in attempt.steps.all()] == [
        ("call", "lookup"),
        ("call", "refund"),
        ("answer", ""),
    ]
    word = attempt.feedback.get()
    assert (word.step and word.step.index, "right was refund" in word.comment) == (1, True)


def test_rejected_and_hinted_actions_are_left_out(live_server: LiveServer, task: Task) -> None:
    with Boss(say("reject", reason="Too much."), say("hint", hint="Say sorry first.")) as boss:
        attempt, used = run_agent(live_server, task)
    assert boss.seen == ["refund", "answer"]
    assert used == [("lookup", {"order": 17})]
    texts = [step.text for step in attempt.steps.all()]
    assert texts[1:] == ["Left out, as I was told: Too much.", "Thought again: Say sorry first."]
    assert attempt.feedback.count() == 2


def test_who_took_over_has_the_last_word(live_server: LiveServer, task: Task) -> None:
    with Boss(say("take_over", answer="I called the customer.")):
        attempt, used = run_agent(live_server, task)
    assert used == [("lookup", {"order": 17})]
    assert attempt.answer == "I called the customer."


def test_it_stops_where_nobody_came_and_the_rule_fails_the_task(live_server: LiveServer, task: Task) -> None:
    task.worker.supervision = {"tools": ["refund"], "on_timeout": "fail"}
    task.worker.save(update_fields=["supervision"])

    def come_too_late(proposal: Proposal) -> None:
        let_time_pass(proposal)
        expire_proposals()

    with Boss(come_too_late), pytest.raises(TaskFailedError, match="nobody decided"):
        run_agent(live_server, task)
    task.refresh_from_db()
    assert (task.state, task.failed_link) == ("failed", "supervision")
    assert not Attempt.objects.exists()
