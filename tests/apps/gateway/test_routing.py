"""Which model serves a request, whose conversation it is part of, and how much it may ask."""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings

from apps.gateway.dialects.content import Usage
from apps.gateway.errors import RefusalError
from apps.gateway.limits import Budgets, Reservation, connect_redis
from apps.gateway.pins import Pin
from apps.gateway.routing import find_route, name_served
from apps.gateway.sessions import Place, find_place, read_session_headers
from apps.gateway.tables import Backend, Caller, Served, Tables, WorkerRoute
from apps.inference.provider_kinds import KINDS
from tentalis.core.learning.canary_routing import is_canary
from tentalis.core.limits import Limits

NOW = 1_800_000_000.0
NO_LIMITS = Limits()


def make_backend(name: str = "stub", **limits: Any) -> Backend:
    return Backend(
        key=1,
        name=name,
        kind=KINDS["vllm"],
        urls=("http://stub",),
        headers={},
        default_model="base",
        trusts_private=False,
        timeout_s=1.0,
        limits=Limits(**limits),
    )


def make_caller(
    *, key: str = "key", is_agent: bool = True, token: dict[str, Any] | None = None, **project_limits: Any
) -> Caller:
    return Caller(
        token=key,
        project=1,
        project_slug="shop",
        agent="agent:claw",
        is_agent=is_agent,
        may_ask=True,
        may_read=True,
        token_limits=Limits(**(token or {})),
        project_limits=Limits(**project_limits),
        expires_at=NOW + 1,
    )


def make_place(session: str = "s", task: int | None = None) -> Place:
    return Place(session, "", "main", task, None, False)


OLD, NEW = Served("shop.helper@v1-aa", "shop.helper@v1-aa", 1), Served("shop.helper@v2-bb", "shop.helper@v2-bb", 2)


def make_tables(**canary: Any) -> Tables:
    backend = make_backend()
    route = WorkerRoute(project=1, name="helper", backend=backend, base=Served("base"), deployed=OLD, **canary)
    adapters = {}
    for served in (OLD, NEW):
        adapters[1, served.name] = adapters[1, served.name.partition(".")[2]] = (route, served)
    return Tables(
        workers={(1, "helper"): route},
        adapters=adapters,
        owners={OLD.name: 1, NEW.name: 1, "other.spy@v1-cc": 2},
        backends={(None, "stub"): backend},
    )


def served_of(model: str, place: Place, tables: Tables, project: int = 1) -> Served:
    return find_route(model, place, project=project, tables=tables).served


def test_a_worker_is_served_by_what_is_deployed_and_its_adapters_by_their_names() -> None:
    tables = make_tables()
    assert served_of("helper", make_place(), tables) == OLD
    assert served_of("shop.helper@v2-bb", make_place(), tables) == NEW
    assert served_of("helper@v2-bb", make_place(), tables) == NEW
    assert served_of("stub/some/model", make_place(), tables) == Served("some/model")
    assert served_of(f"stub/{OLD.name}", make_place(), tables) == OLD


def test_a_route_that_is_remembered_is_for_no_try_that_keeps_to_another_and_a_kept_one_for_nobody_else() -> None:
    pinned = make_place()._replace(pin=Pin("helper", NEW.name, {}, None, is_measured=False))
    for first, second in ((make_place(), pinned), (pinned, make_place())):
        tables = make_tables()
        for place in (first, second, first):
            assert served_of("helper", place, tables) == (OLD if place.pin is None else NEW)
    mine = make_tables(people={"ann": NEW})
    for end_user, wanted in (("", OLD), ("ann", NEW), ("bob", OLD)):
        assert served_of("helper", make_place()._replace(end_user=end_user), mine) == wanted


@pytest.mark.parametrize("model", ["nobody", "helper@v9-ee", "stub/", "nowhere/base", "stub/other.spy@v1-cc"])
def test_what_is_not_the_projects_is_not_there(model: str) -> None:
    with pytest.raises(RefusalError) as caught:
        served_of(model, make_place(), make_tables())
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")


def test_another_project_has_no_such_worker() -> None:
    with pytest.raises(RefusalError):
        served_of("helper", make_place(), make_tables(), project=2)


def test_a_canary_gets_its_share_of_the_sessions_and_a_session_keeps_its_side() -> None:
    tables = make_tables(canary=NEW, canary_percent=20, canary_key="3:2")
    sides = {name: served_of("helper", make_place(name), tables) for name in map(str, range(4000))}
    share = Counter(sides.values())[NEW] / len(sides)
    assert 0.17 < share < 0.23
    assert all(served_of("helper", make_place(name), tables) == side for name, side in sides.items())


def test_another_trial_tries_other_sessions() -> None:
    names = list(map(str, range(1000)))
    first, second = (
        {
            name
            for name in names
            if served_of("helper", make_place(name), make_tables(canary=NEW, canary_percent=20, canary_key=key)) == NEW
        }
        for key in ("3:2", "4:2")
    )
    assert first != second


def test_a_task_is_on_the_side_its_attempts_are_on() -> None:
    tables = make_tables(canary=NEW, canary_percent=50, canary_key="3:2", canary_after_task=100)
    for task in range(90, 200):
        wanted = NEW if task > 100 and is_canary(f"3:2:{task}", percent=50) else OLD
        assert served_of("helper", make_place(task=task), tables) == wanted


def test_what_a_server_says_it_is_is_looked_up() -> None:
    assert name_served(NEW.name, project=1, tables=make_tables()) == NEW
    assert name_served("base", project=1, tables=make_tables()) == Served("base")


# --- sessions


@pytest.mark.parametrize(
    ("body", "headers", "session"),
    [
        ({"prompt_cache_key": "s-abc-1:0"}, {}, "s-abc-1"),
        ({"prompt_cache_key": "agent:main:main"}, {}, "agent:main:main"),
        ({"prompt_cache_key": "k", "session_id": "b"}, {}, "b"),
        ({"session_id": "b"}, {"x-session-affinity": "a"}, "a"),
        ({}, {"x-openclaw-session-key": "o", "x-session-affinity": "a"}, "o"),
        ({}, {"X-Session-Id": "x", "x-openclaw-session-key": "o"}, "x"),
        ({"metadata": {"session_id": "m"}, "user": "u"}, {}, "m"),
        ({"user": "u"}, {}, "u"),
        ({"metadata": {"user_id": f"user_1_account__session_{'0' * 8}-0000-4000-8000-{'1' * 12}"}}, {}, None),
        ({"session_id": 7, "user": ["u"], "metadata": "no"}, {}, "fp-"),
        ({"session_id": "with\0nul"}, {}, "withnul"),
    ],
)
def test_a_session_is_named_by_what_says_it_first(
    body: dict[str, Any], headers: Mapping[str, str], session: str | None
) -> None:
    found = find_place(body, read_session_headers(headers), make_caller()).session
    if session is None:
        assert found == f"{'0' * 8}-0000-4000-8000-{'1' * 12}"
    else:
        assert found.startswith(session) if session == "fp-" else found == session


def test_without_a_name_a_conversation_is_known_by_how_it_began() -> None:
    def ask(*messages: str) -> str:
        roles = ["system", "user", "assistant", "user"]
        body = {"messages": [{"role": role, "content": text} for role, text in zip(roles, messages, strict=False)]}
        return find_place(body, read_session_headers({}), make_caller()).session

    assert ask("be kind", "hello") == ask("be kind", "hello", "hi", "and now?")
    assert ask("be kind", "hello") != ask("be kind", "good day")
    assert ask("be kind", "hello").startswith("fp-")


def test_instructions_in_blocks_tell_conversations_apart_and_marks_of_the_cache_do_not() -> None:
    def ask(rules: str, *, is_cached: bool = False) -> str:
        mark = {"cache_control": {"type": "ephemeral"}} if is_cached else {}
        said = [{"type": "text", "text": "hello", **mark}]
        messages = [{"role": "user", "content": said}]
        body = {"system": [{"type": "text", "text": rules, **mark}], "messages": messages}
        return find_place(body, read_session_headers({}), make_caller()).session

    assert ask("be kind") != ask("be brief")
    assert ask("be kind") == ask("be kind", is_cached=True)


def test_a_blank_name_names_nothing() -> None:
    found = find_place({"prompt": "hello"}, read_session_headers({"X-Session-Id": "  "}), make_caller())
    assert found.is_guessed
    assert found.session.startswith("fp-")


def test_a_long_name_is_cut_and_stays_its_own() -> None:
    long = [
        find_place({}, read_session_headers({"X-Session-Id": "x" * 300 + end}), make_caller()).session for end in "ab"
    ]
    assert len(long[0]) <= 200
    assert long[0] != long[1]


@pytest.mark.parametrize(
    ("header", "is_agent", "turn"),
    [
        ({}, True, "main"),
        ({}, False, "side"),
        ({"X-Turn-Type": "Side"}, True, "side"),
        ({"X-Tentalis-Task": "7"}, False, "main"),
        ({"X-Tentalis-Task": "7", "X-Turn-Type": "side"}, False, "side"),
        ({"X-Turn-Type": "x"}, True, "main"),
    ],
)
def test_agents_speak_in_main_turns_unless_they_say_otherwise(
    header: dict[str, str], is_agent: bool, turn: str
) -> None:
    assert find_place({}, read_session_headers(header), make_caller(is_agent=is_agent)).turn == turn


def test_task_step_and_end_are_read_and_nonsense_is_told_from_nothing() -> None:
    said = {"X-Tentalis-Task": "12", "X-Tentalis-Attempt": "0", "X-Tentalis-Step": "3", "X-Session-Done": "1"}
    found = find_place({}, read_session_headers(said), make_caller())
    assert (found.task, found.attempt, found.step, found.is_done) == (12, 0, 3, True)
    found = find_place({}, read_session_headers({"X-Tentalis-Task": "-1", "X-Tentalis-Step": "9" * 30}), make_caller())
    assert (found.task, found.step, found.is_done) == (-1, -1, False), "it is refused (test_refusals)"
    found = find_place({}, read_session_headers({}), make_caller())
    assert (found.task, found.attempt, found.step) == (None, None, None)


def test_claude_code_names_account_and_session_in_one_and_its_sub_agents_work_aside() -> None:
    said = json.dumps({"device_id": "d", "account_uuid": "ann", "session_id": "s-1"})
    found = find_place({"metadata": {"user_id": said}}, read_session_headers({}), make_caller())
    assert (found.session, found.end_user, found.is_named) == ("s-1", "ann", True)
    said = json.dumps({"device_id": "d", "account_uuid": "", "session_id": "s-1"})
    assert find_place({"metadata": {"user_id": said}}, read_session_headers({}), make_caller()).end_user == "d"
    before = f"user_1_account_2_session_{'0' * 8}-0000-4000-8000-{'1' * 12}"
    assert (
        find_place({"metadata": {"user_id": before}}, read_session_headers({}), make_caller()).end_user
        == "user_1_account_2"
    )
    aside = {"X-Claude-Code-Session-Id": "s-1", "x-claude-code-agent-id": "a"}
    assert find_place({}, read_session_headers(aside), make_caller())[:3] == ("s-1", "", "side")
    assert (
        find_place({"metadata": {"user_id": "{not JSON"}}, read_session_headers({}), make_caller()).session
        == "{not JSON"
    )


def test_a_name_of_the_user_alone_names_no_conversation_and_retries_are_counted() -> None:
    assert not find_place({"user": "ann"}, read_session_headers({}), make_caller()).is_named
    assert find_place({"user": "ann", "session_id": "s"}, read_session_headers({}), make_caller()).is_named
    assert find_place({}, read_session_headers({"x-stainless-retry-count": "2"}), make_caller()).retry == 2


def test_whom_an_agent_speaks_for_parts_guessed_sessions_and_what_names_a_request_does_not() -> None:
    def ask(**metadata: str) -> str:
        body = {"messages": [{"role": "user", "content": "hello"}], "metadata": metadata}
        return find_place(body, read_session_headers({}), make_caller()).session

    assert ask(customer="ann") != ask(customer="bob")
    assert ask(trace_id="1") == ask(trace_id="2")


# --- limits


def begin(
    budgets: Budgets, caller: Caller, backend: Backend, now: float = NOW, *, allowance: Limits = NO_LIMITS
) -> Reservation | None:
    """A request that may use 100 tokens, for a tenth of a dollar, and is not answered yet."""
    usage = Usage(prompt=10, completion=90, cached=0, cache_write=0, reasoning=0)
    return budgets.admit(caller, backend, now, guess=lambda: usage, count_usd=lambda found: 0.1, allowance=allowance)


def admit(budgets: Budgets, caller: Caller, backend: Backend, *, now: float = NOW) -> bool:
    """Whether a request is let in that uses nothing."""
    try:
        held = begin(budgets, caller, backend, now)
    except RefusalError:
        return False
    if held is not None:
        held.release()
    return True


@pytest.mark.parametrize("limit", [{"tokens_per_day": 3}, {"tokens_per_minute": 3}, {"usd_per_day": 0.03}])
def test_of_requests_at_the_same_time_only_the_first_may_go_beyond_a_budget(limit: dict[str, Any]) -> None:
    budgets, caller, backend = Budgets(), make_caller(token=limit), make_backend()
    first = begin(budgets, caller, backend)
    assert first is not None
    for _ in range(19):
        with pytest.raises(RefusalError, match="what is being answered may use the rest") as caught:
            begin(budgets, caller, backend)
        assert (caught.value.status, caught.value.retry_after_s) == (429, 1)
    budgets.charge(caller, backend, tokens=2, count_usd=lambda: 0.02, now=NOW)
    first.release()
    assert admit(budgets, caller, backend), "what the answer left is there for the next"


def test_room_held_over_midnight_is_given_back_to_the_day_it_ends_in() -> None:
    budgets, caller, backend = Budgets(), make_caller(token={"tokens_per_day": 3}), make_backend()
    held = begin(budgets, caller, backend)
    assert held is not None
    with pytest.raises(RefusalError):
        begin(budgets, caller, backend, NOW + 86_400)
    held.release()
    assert admit(budgets, caller, backend, now=NOW + 86_400)


def test_a_refusal_says_when_to_come_back() -> None:
    budgets, caller, backend = Budgets(), make_caller(token={"requests_per_minute": 1}), make_backend()
    assert admit(budgets, caller, backend, now=NOW + 20)
    with pytest.raises(RefusalError, match="this token may use 1 requests a minute") as caught:
        begin(budgets, caller, backend, NOW + 20.5)
    assert (caught.value.status, caught.value.retry_after_s) == (429, 40)


@pytest.mark.parametrize(
    ("caller", "backend"),
    [
        (make_caller(token={"requests_per_minute": 3}), make_backend()),
        (make_caller(requests_per_minute=3), make_backend()),
        (make_caller(), make_backend(requests_per_minute=3)),
    ],
    ids=["token", "project", "provider"],
)
def test_a_budget_of_requests_is_for_a_minute(caller: Caller, backend: Backend) -> None:
    budgets = Budgets()
    assert [admit(budgets, caller, backend) for _ in range(5)] == [True] * 3 + [False] * 2
    assert admit(budgets, caller, backend, now=NOW + 60)


@pytest.mark.parametrize(
    ("name", "later_s"), [("tokens_per_minute", 60), ("tokens_per_day", 86_400), ("usd_per_day", 86_400)]
)
def test_a_budget_of_tokens_or_dollars_is_used_up_by_answers(name: str, later_s: int) -> None:
    limits: dict[str, Any] = {name: 100}
    budgets, caller, backend = Budgets(), make_caller(**limits), make_backend()
    assert admit(budgets, caller, backend)
    budgets.charge(caller, backend, tokens=99, count_usd=lambda: 99.0, now=NOW)
    assert admit(budgets, caller, backend)
    budgets.charge(caller, backend, tokens=1, count_usd=lambda: 1.0, now=NOW)
    assert not admit(budgets, caller, backend)
    assert admit(budgets, caller, backend, now=NOW + later_s)


def test_who_has_no_limit_is_not_counted() -> None:
    budgets = Budgets()
    assert all(admit(budgets, make_caller(), make_backend()) for _ in range(1000))
    assert budgets._counts == {}


async def test_two_gateways_keep_one_budget_through_redis() -> None:
    caller, backend = make_caller(key=uuid4().hex, token={"requests_per_minute": 10}), make_backend()
    pair = [Budgets(connect_redis(settings.REDIS_URL)) for _ in range(2)]
    for budgets in pair:
        assert all(admit(budgets, caller, backend) for _ in range(4))
    for budgets in (*pair, pair[0]):
        await budgets.sync(NOW)
    assert [sum(admit(budgets, caller, backend) for _ in range(5)) for budgets in pair] == [2, 2]
    await asyncio.gather(*(budgets.stop() for budgets in pair))


async def test_without_redis_each_gateway_keeps_to_its_own_count() -> None:
    budgets = Budgets(connect_redis("redis://127.0.0.1:1/0"))
    caller, backend = make_caller(token={"requests_per_minute": 2}), make_backend()
    assert admit(budgets, caller, backend)
    await budgets.sync(NOW)
    assert [admit(budgets, caller, backend) for _ in range(2)] == [True, False]
    await budgets.stop()
