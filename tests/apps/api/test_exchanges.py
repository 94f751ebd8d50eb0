"""Exchanges found by when, what, whose and in which session they were, and taken along."""

import json
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.utils import timezone

from apps.accounts.models import Project
from apps.inference.models import Exchange
from tests.apps.conversations.talk import Talk, user
from tests.edges.caller import Caller
from tests.factories import make_project

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


@pytest.fixture
def said(project: Project) -> list[Exchange]:
    """Two of Grace's yesterday, the second going on from the first; one of Ada's now; one that failed."""
    grace, ada = Talk(project, "grace-1", end_user="grace"), Talk(project, "ada/1", end_user="ada")
    rows = [
        grace.ask(user('Refund "order 17".'), answer="Order 71 is refunded."),
        grace.ask(user("And order 18?"), answer="Let me look.", calls=[CALL]),
        ada.ask(user("Grüezi"), answer="Good day."),
        ada.ask(user("Again?"), answer="", status=503),
    ]
    Exchange.objects.filter(pk__in=[rows[0].pk, rows[1].pk]).update(created_at=timezone.now() - timedelta(days=1))
    return rows


def test_each_filter_leaves_what_it_names(as_alice: Caller, said: list[Exchange]) -> None:
    def find(**wanted: str) -> list[int]:
        query = "&".join(f"{name}={quote(value)}" for name, value in wanted.items())
        answer = as_alice.get(f"exchanges?{query}")
        assert answer.status == 200, answer
        return sorted(row["id"] for row in answer.body["results"])

    first, second, third, failed = (row.pk for row in said)
    middle = (timezone.now() - timedelta(hours=12)).isoformat()
    assert find(end_user="grace") == [first, second]
    assert find(session_key="ada/1") == [third, failed]
    assert find(until=middle) == [first, second]
    assert failed in find(since=middle)
    assert first not in find(since=middle)
    assert first in find(text='"ORDER 17"')
    assert first in find(text="71 is", end_user="grace")
    assert find(text="71 is", end_user="ada") == []
    assert third in find(text="grüezi")
    assert as_alice.get("exchanges?since=yesterday").status == 400


def test_exchanges_are_taken_along_whole(as_alice: Caller, said: list[Exchange], call_as: Any) -> None:
    def lines(query: str) -> list[Any]:
        answer = as_alice.get(f"exchanges/export{query}")
        assert answer.status == 200, answer
        return [json.loads(line) for line in answer.content.splitlines()]

    assert [row["id"] for row in lines("")] == [row.pk for row in said]
    [shown] = [row for row in lines("?end_user=grace") if row["id"] == said[1].pk]
    assert shown == as_alice.get(f"exchanges/{said[1].pk}").body
    chats = lines("?format=chat")
    assert [chat["messages"][-1]["role"] for chat in chats] == ["assistant"] * 3
    assert [message["role"] for message in chats[1]["messages"]] == ["system", "user", "assistant", "user", "assistant"]
    assert chats[1]["messages"][-1]["tool_calls"] == [CALL]
    assert as_alice.get("exchanges/export?format=xml").status == 400


def test_nobody_elses_are_taken_along(said: list[Exchange], as_charlie: Caller) -> None:
    make_project("elsewhere")
    assert as_charlie.get("exchanges/export").content in {b""} or as_charlie.get("exchanges/export").status == 403
