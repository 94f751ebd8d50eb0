"""Whatever was said in whatever order, it is read back as it was said, messages and tokens."""

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import orjson
import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.conninfo import make_conninfo

from apps.accounts.models import Project
from apps.gateway.batches import Move, Store
from apps.gateway.capture import Captured, capture
from apps.gateway.conversation_delta import MOST_LINKS
from apps.gateway.spool import Position
from apps.inference.models import Exchange, Session
from apps.inference.selectors import (
    IncompleteConversationError,
    find_session_exchanges,
    read_conversations,
    read_messages,
)
from tentalis.core.conversation_delta import make_answer
from tests.apps.gateway.records import make_record

pytestmark = pytest.mark.django_db(transaction=True)
WORDS = st.text(st.sampled_from('ab \u00e4\U0001f600\x00"\\'), min_size=1, max_size=6)
Json = dict[str, Any]
_NAMES = iter(range(10**9))


@st.composite
def turns(draw: Callable[..., Any]) -> list[Json]:
    """Requests, each saying how it comes from an earlier one: goes on, asks again, forks or edits what was said."""
    return [
        {
            "from": draw(st.integers(-1, place - 1)),
            "how": draw(st.sampled_from(["on", "on", "on", "on", "again", "fork", "edit", "echo"])),
            "cut": draw(st.integers(0, 5)),
            "say": draw(st.lists(WORDS, min_size=1, max_size=2)),
            "reply": draw(WORDS),
            "n": draw(st.sampled_from([1, 1, 1, 2])),
            "choice": draw(st.integers(0, 1)),
            "calls": draw(st.booleans()),
            "tools": draw(st.sampled_from([None, "some tools " * 9, "other tools " * 9])),
            "tells_tokens": draw(st.sampled_from([True, True, True, False])),
            "status": draw(st.sampled_from([200, 200, 200, 500])),
            "ends_batch": draw(st.booleans()),
            "forgets": draw(st.integers(0, 4)) == 0,
        }
        for place in range(draw(st.integers(1, 14)))
    ]


def say_next(turn: Json, earlier: list[tuple[list[Any], list[Any]]]) -> list[Any]:
    """The messages of a turn, from those of an earlier one and its answers."""
    said = [{"role": "user", "content": words} for words in turn["say"]]
    if turn["from"] < 0:
        return said
    messages, answers = earlier[turn["from"]]
    answer = answers[min(turn["choice"], len(answers) - 1)] if answers else None
    if turn["how"] == "again":
        return copy.deepcopy(messages)
    if turn["how"] == "fork":
        return [*messages[: turn["cut"]], *said]
    if turn["how"] == "edit":
        edited = copy.deepcopy([*messages, *([answer] if answer else []), *said])
        edited[turn["cut"] % len(edited)]["content"] = "changed"
        return edited
    if turn["how"] == "echo" and answer:  # a client that repeats more than was said
        answer = answer | {"refusal": None, "annotations": []}
    return copy.deepcopy([*messages, *([answer] if answer else []), *said])


def perform(project: Project, session: str, plan: list[Json]) -> list[Captured]:
    """All of the turns, as captured."""
    earlier: list[tuple[list[Any], list[Any]]] = []
    captured: list[Captured] = []
    for turn in plan:
        messages = say_next(turn, earlier)
        body = {"n": turn["n"], "tools": turn["tools"]} if turn["tools"] else {"n": turn["n"]}
        record = make_record(
            project.pk, messages, session, body=body, reply=turn["reply"], tells_tokens=turn["tells_tokens"],
            status=turn["status"], tool_calls=[["f", '{"x": 1}']] if turn["calls"] else [],
        )  # fmt: skip
        found = capture(record)
        captured += found
        answers = [make_answer(one.text, one.tool_calls) for one in found]
        earlier.append((found[0].messages, [one for one in answers if one]))
    return captured


def store(plan: list[Json], captured: list[Captured]) -> None:
    """In batches, by a writer that forgets now and then."""
    wanted = connection.get_connection_params()
    info = make_conninfo("", **{name: wanted[name] for name in ("host", "port", "dbname", "user", "password")})
    writer = Store(info)
    name = f"spool-{next(_NAMES)}"
    place = writer.read_position(name)
    rest = list(captured)
    for turn in plan:
        batch = [one for one in rest if one.header["id"] == rest[0].header["id"]] if rest else []
        if not batch:
            break
        if turn["ends_batch"]:
            batch = rest[: len(batch) + 1]
        rest = rest[len(batch) :]
        if turn["forgets"]:
            writer.forget()
        end = Position(place.segment, place.offset + 1)
        writer.write(batch, [Move(name, place, end)])
        place = end
    if rest:
        writer.write(rest, [Move(name, place, Position(1, 0))])
    writer.drop_position(name)
    writer.close()


@pytest.mark.thorough
@given(plan=turns())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_conversation_reads_back_as_it_was_said(project: Project, plan: list[Json]) -> None:
    session = f"s{next(_NAMES)}"
    captured = perform(project, session, plan)
    store(plan, captured)
    exchanges = find_session_exchanges(Session.objects.get(key=session))
    assert [(one.public_id.hex, one.choice) for one in exchanges] == [
        (one.header["id"], one.choice) for one in captured
    ]
    whole, words = read_conversations(exchanges), read_conversations(exchanges, tokens=False)
    for exchange, wanted in zip(exchanges, captured, strict=True):
        found = whole[exchange.pk]
        assert found.is_whole
        assert found.messages == words[exchange.pk].messages == wanted.messages
        assert found.request == words[exchange.pk].request == wanted.request
        assert found.prompt_token_ids == wanted.prompt_token_ids
        assert found.token_ids == wanted.token_ids == bytes(exchange.token_ids)
        assert found.answer == make_answer(wanted.text, wanted.tool_calls)


def converse(project: Project, session: str, count: int) -> list[Captured]:
    plan = [
        {"from": place - 1, "how": "on", "cut": 0, "say": [f"and {place}?"], "reply": f"{place}.", "n": 1, "choice": 0,
         "calls": False, "tools": "many tools " * 50, "tells_tokens": True, "status": 200, "ends_batch": False,
         "forgets": False}
        for place in range(count)
    ]  # fmt: skip
    captured = perform(project, session, plan)
    store(plan, captured)
    return captured


def test_each_turn_begins_with_the_one_before(project: Project) -> None:
    captured = converse(project, "s", 2 * MOST_LINKS + 3)
    exchanges = find_session_exchanges(Session.objects.get())
    whole = read_conversations(exchanges)
    for before, after in pairwise(exchanges):
        known = whole[before.pk].prompt_token_ids + whole[before.pk].token_ids
        assert whole[after.pk].prompt_token_ids.startswith(known)
    assert sum(len(one.messages) for one in exchanges) < 2 * len(captured) + 6 * MOST_LINKS
    assert sum("tools" in one.request for one in exchanges) == 3
    assert read_messages(exchanges[-1]) == captured[-1].messages
    assert orjson.dumps(whole[exchanges[-1].pk].request["tools"]) == orjson.dumps("many tools " * 50)


@pytest.mark.parametrize("count", [1, 40])
def test_however_many_are_read_it_is_one_query(project: Project, django_assert_num_queries: Any, count: int) -> None:
    converse(project, "s", 45)
    exchanges = list(Exchange.objects.order_by("-pk")[:count])
    with django_assert_num_queries(1):
        read_conversations(exchanges)


def test_a_conversation_that_lost_a_part_says_so(project: Project) -> None:
    converse(project, "s", 4)
    exchanges = find_session_exchanges(Session.objects.get())
    exchanges[1].delete()
    last = Exchange.objects.get(pk=exchanges[3].pk)
    assert not read_conversations([last])[last.pk].is_whole
    with pytest.raises(IncompleteConversationError, match="deleted"):
        read_messages(last)
    assert len(read_messages(exchanges[0])) == 1
