"""Several workers asked at once behind one name: one of their answers is given, and all of them are recorded."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from apps.accounts.models import Project, User
from apps.gateway.edge import Patience
from apps.gateway.server import DIALECT_PATHS
from apps.inference.models import Exchange, Session
from apps.inference.selectors import read_conversations
from apps.workers.ensembles import change_ensemble, create_ensemble
from apps.workers.models import Ensemble, Worker
from tests.apps.gateway.running import (
    HELLO,
    GatewayProcess,
    GatewayThread,
    make_agent_token,
    make_chat_worker,
    make_provider,
)
from tests.apps.gateway.test_edge import wait_for
from tests.apps.gateway.upstream import StubUpstream

NAMES = ("first", "second", "third")


@pytest.fixture(scope="module")
def shared_servers() -> Iterator[dict[str, StubUpstream]]:
    with StubUpstream() as first, StubUpstream() as second, StubUpstream() as third:
        yield dict(zip(NAMES, (first, second, third), strict=True))


@pytest.fixture
def servers(shared_servers: dict[str, StubUpstream]) -> dict[str, StubUpstream]:
    """One a member, each says something else until told otherwise."""
    for name, server in shared_servers.items():
        server.reset()
        server.plan(reply=f"I am {name}")
    return shared_servers


@pytest.fixture
def trio(transactional_db: None, project: Project, alice: User, servers: dict[str, StubUpstream]) -> Ensemble:
    """`ensemble/trio` of three workers, each with a server of its own."""
    for name, server in servers.items():
        make_chat_worker(project, make_provider(project, server.url, name=f"{name}-server"), name)
    return create_ensemble(project=project, name="trio", members=NAMES, by=alice)


@pytest.fixture
def edge(trio: Ensemble, token: str) -> Iterator[GatewayThread]:
    with GatewayThread() as running:
        yield running


def test_the_answer_that_most_members_give_is_given(
    edge: GatewayThread, token: str, servers: dict[str, StubUpstream]
) -> None:
    servers["first"].plan(reply="It is 5.")
    servers["second"].plan(reply="It is 4.")
    servers["third"].plan(reply="it is 4")
    answer = edge.chat("ensemble/trio", token=token)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"] == "It is 4."
    assert answer.headers["X-Tentalis-Chosen-By"] == "votes"
    headers = [record.header for record in edge.records]
    assert [(one["worker"], one.get("choice", 0), one["status"]) for one in headers] == [
        ("second", 0, 200),
        ("first", 1, 200),
        ("third", 2, 200),
    ]
    assert {one["id"] for one in headers} == {answer.headers["X-Tentalis-Exchange"]}
    assert {one["model"] for one in headers} == {"ensemble/trio"}


def test_of_members_that_differ_a_lot_that_the_conversation_keeps_says_whose_answer_is_given(
    edge: GatewayThread, token: str
) -> None:
    def ask(talk: str) -> str:
        answer = edge.chat("ensemble/trio", token=token, headers={"X-Session-Id": talk})
        assert answer.headers["X-Tentalis-Chosen-By"] == "lot"
        return str(answer.json()["choices"][0]["message"]["content"])

    asked = [ask(f"talk-{number}") for number in (1, 2, 3, 4, 1, 2, 3, 4)]
    assert asked[:4] == asked[4:]
    assert len(set(asked)) == 3, "each of them is given somewhere"


ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": HELLO,
    "/v1/completions": {"prompt": "hello there"},
    "/v1/responses": {"input": "hello there"},
    "/v1/messages": {"messages": HELLO["messages"], "max_tokens": 20},
}


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("path", ASKED)
def test_every_dialect_gets_the_chosen_answer_whole_or_as_events(
    edge: GatewayThread, token: str, servers: dict[str, StubUpstream], path: str, is_stream: bool
) -> None:
    for name in ("second", "third"):
        servers[name].plan(reply="It is four.")
    servers["first"].plan(reply="I doubt it.")
    body = {**ASKED[path], "model": "ensemble/trio", "stream": is_stream}
    answer = edge.client.post(path, json=body, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text
    if is_stream:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        beginning = {"/v1/messages": "event: message_start", "/v1/responses": "event: response.created"}
        assert answer.text.startswith(beginning.get(path, "data: {"))
    assert "four" in answer.text
    assert "doubt" not in answer.text
    assert answer.headers["X-Tentalis-Adapter"] == "base"
    first, *others = [record.header for record in edge.records]
    assert (first["worker"], first["is_stream"], first["api"]) == ("second", is_stream, DIALECT_PATHS[path])
    assert [(one["worker"], one["choice"], one["status"]) for one in others] == [("first", 1, 200), ("third", 2, 200)]


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_member_that_fails_leaves_the_choice_to_the_others(
    edge: GatewayThread, token: str, servers: dict[str, StubUpstream], is_stream: bool
) -> None:
    servers["first"].plan(status=400)
    servers["second"].plan(truncate_after=2)
    answer = edge.chat("ensemble/trio", token=token, stream=is_stream)
    assert "third" in answer.text
    kept = {record.header["worker"]: record.header for record in edge.records}
    assert (kept["third"].get("choice", 0), kept["third"]["error"]) == (0, "")
    assert kept["first"]["status"] == 400
    assert kept["second"]["status"] in {502, 503}
    assert "second-server" in kept["second"]["error"]


def test_where_none_answers_each_says_why_in_the_first_ones_words(
    edge: GatewayThread, token: str, servers: dict[str, StubUpstream]
) -> None:
    for server, status in zip(servers.values(), (400, 429, 500), strict=True):
        server.plan(status=status)
    answer = edge.chat("ensemble/trio", token=token)
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert [f"{name}: {name}-server" in message for name in NAMES] == [True, True, True]
    assert [record.header["status"] for record in edge.records] == [400, 429, 500]
    assert answer.headers["X-Tentalis-Exchange"] == edge.records[0].header["id"]


def test_who_is_late_is_left_and_hears_that_nobody_listens(
    project: Project, token: str, trio: Ensemble, alice: User, servers: dict[str, StubUpstream]
) -> None:
    change_ensemble(ensemble=trio, by=alice, wait_s=1)
    servers["first"].plan(think_s=600)
    with GatewayThread() as edge:
        answer = edge.chat("ensemble/trio", token=token)
        wait_for(lambda: servers["first"].open_requests == 0)
    assert answer.json()["choices"][0]["message"]["content"] in {"I am second", "I am third"}
    late = edge.records[1].header
    assert (late["worker"], late["status"], late["is_truncated"]) == ("first", 200, True)
    assert late["error"] == "no answer yet 1 s after the first member's"


def test_a_stream_is_kept_alive_while_its_answer_is_chosen(
    trio: Ensemble, token: str, servers: dict[str, StubUpstream]
) -> None:
    servers["third"].plan(think_s=3)
    with GatewayThread(patience=Patience(heartbeat_s=0.1)) as edge:
        streamed = edge.stream("ensemble/trio", token=token)
    assert streamed.response.text.startswith(": ping")
    assert streamed.text() in {f"I am {name}" for name in NAMES}
    assert streamed.is_done
    assert streamed.response.headers["X-Tentalis-Exchange"] == edge.records[0].header["id"]
    assert "X-Tentalis-Adapter" not in streamed.response.headers, "nobody knew yet who answers"


def test_a_stream_that_was_kept_alive_ends_with_what_each_said_where_none_answers(
    trio: Ensemble, token: str, servers: dict[str, StubUpstream]
) -> None:
    for server in servers.values():
        server.plan(status=400, think_s=3)
    with GatewayThread(patience=Patience(heartbeat_s=0.1)) as edge:
        streamed = edge.stream("ensemble/trio", token=token)
    assert streamed.response.text.startswith(": ping")
    assert [f"{name}: {name}-server" in streamed.error["message"] for name in NAMES] == [True, True, True]
    assert [record.header["status"] for record in edge.records] == [400, 400, 400]


def test_calls_of_tools_are_compared_by_what_they_call(
    edge: GatewayThread, token: str, servers: dict[str, StubUpstream]
) -> None:
    servers["first"].plan(tool_calls=[["find", '{"order": 8}']])
    servers["second"].plan(reply="I shall look.", tool_calls=[["find", '{"order": 7}']])
    servers["third"].plan(reply="Wait.", tool_calls=[["find", '{"order":7}']])
    answer = edge.chat("ensemble/trio", token=token)
    [call] = answer.json()["choices"][0]["message"]["tool_calls"]
    assert call["function"]["arguments"] == '{"order": 7}'


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        ("/v1/chat/completions", HELLO | {"n": 2}, "n: an ensemble gives one answer: wanted 1, found 2"),
        ("/v1/completions", {"prompt": "x", "best_of": 3}, "best_of: an ensemble gives one answer"),
        ("/v1/completions", {"prompt": ["x", "y"]}, "prompt: an ensemble gives one answer: wanted 1 prompt, found 2"),
        ("/v1/embeddings", {"input": "x"}, "answers conversations and completions alone"),
        ("/v1/messages/count_tokens", {"messages": HELLO["messages"]}, "one of its members (first, second, third)"),
    ],
)
def test_what_no_one_answer_can_be_to_is_refused_before_anybody_is_asked(
    edge: GatewayThread, token: str, servers: dict[str, StubUpstream], path: str, fields: dict[str, Any], words: str
) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    answer = edge.client.post(path, json=fields | {"model": "ensemble/trio"}, headers=headers)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert [server.requests for server in servers.values()] == [[], [], []]
    assert len(edge.records) == (path in DIALECT_PATHS)


def test_every_member_counts_against_the_callers_budget(
    edge: GatewayThread, project: Project, servers: dict[str, StubUpstream]
) -> None:
    limited = make_agent_token(project, "limited", requests_per_minute=2)
    answer = edge.chat("ensemble/trio", token=limited)
    assert answer.json()["choices"][0]["message"]["content"] in {"I am first", "I am second"}
    assert edge.records[2].header["status"] == 429
    assert "this token may use 2 requests a minute" in edge.records[2].header["error"]
    assert edge.chat("ensemble/trio", token=limited).status_code == 429
    assert sum(len(server.requests) for server in servers.values()) == 2


def test_all_that_members_use_is_charged(edge: GatewayThread, project: Project) -> None:
    limited = make_agent_token(project, "limited", tokens_per_day=10_000)
    used = edge.chat("ensemble/trio", token=limited).json()["usage"]["total_tokens"]
    wait_for(lambda: edge.edge.metrics.tokens == 3 * used)


def test_who_may_not_use_one_of_the_members_may_not_use_the_ensemble(
    edge: GatewayThread, project: Project, token: str, servers: dict[str, StubUpstream]
) -> None:
    shared = make_provider(None, servers["third"].url, name="lent")
    Worker.objects.filter(project=project, name="third").update(provider=shared)
    wait_for(lambda: edge.chat("ensemble/trio", token=token).status_code == 403)
    for server in servers.values():
        server.reset()
    answer = edge.chat("ensemble/trio", token=token)
    assert answer.json()["error"]["code"] == "provider_not_granted"
    assert [server.requests for server in servers.values()] == [[], [], []]
    listed = edge.client.get("/v1/models", headers={"Authorization": f"Bearer {token}"}).text
    assert "ensemble/trio" not in listed


def test_models_are_listed_with_ensembles_and_those_of_others_are_none(
    edge: GatewayThread, trio: Ensemble, token: str, servers: dict[str, StubUpstream]
) -> None:
    other = Project.objects.create(slug="other", name="Other")
    stranger = make_agent_token(other, "stranger")
    listed = edge.client.get("/v1/models", headers={"Authorization": f"Bearer {token}"}).json()["data"]
    assert "ensemble/trio" in {row["id"] for row in listed}
    answer = edge.chat("ensemble/trio", token=stranger)
    assert (answer.status_code, answer.json()["error"]["message"]) == (
        404,
        "no ensemble 'trio' here; GET /v1/models lists those there are",
    )
    assert "trio" not in edge.client.get("/v1/models", headers={"Authorization": f"Bearer {stranger}"}).text


def test_members_that_are_switched_off_are_not_asked(edge: GatewayThread, project: Project, token: str) -> None:
    def count_asked() -> int:
        before = len(edge.records)
        edge.chat("ensemble/trio", token=token)
        return len(edge.records) - before

    Worker.objects.filter(project=project, name="first").update(is_active=False)
    wait_for(lambda: count_asked() == 2)
    Worker.objects.filter(project=project).update(is_active=False)
    wait_for(lambda: edge.chat("ensemble/trio", token=token).status_code == 404)
    assert "no member of ensemble/trio serves" in edge.chat("ensemble/trio", token=token).text


@pytest.mark.parametrize("is_named", [True, False])
def test_the_answers_of_a_call_are_stored_as_one_requests_and_the_conversation_goes_on_from_the_chosen(
    trio: Ensemble, token: str, servers: dict[str, StubUpstream], is_named: bool
) -> None:
    for name in ("second", "third"):
        servers[name].plan(reply="It is four.")
    headers = {"X-Session-Id": "talk"} if is_named else {}
    messages = list(HELLO["messages"])
    with GatewayProcess() as gateway:
        for turn in range(2):
            answer = gateway.chat("ensemble/trio", token=token, headers=headers, messages=messages).json()
            messages += [answer["choices"][0]["message"], {"role": "user", "content": f"go on {turn}"}]
            wait_for(lambda turn=turn: Exchange.objects.count() == 3 * (turn + 1))
    [session] = Session.objects.all()
    rows = list(Exchange.objects.order_by("id"))
    assert [(one.choice, one.worker_name) for one in rows[:3]] == [(0, "second"), (1, "first"), (2, "third")]
    assert len({one.public_id for one in rows}) == 2
    assert {one.session_id for one in rows} == {session.pk}
    assert session.worker_name == "second"
    assert rows[3].parent_id == rows[0].pk
    told = read_conversations(rows)
    assert [told[one.pk].messages for one in rows[3:]] == [messages[:3]] * 3, "all go on from what its caller was given"
    assert {one.request["model"] for one in told.values()} == {"ensemble/trio"}
    assert all(one.has_exact_tokens for one in rows)


def test_a_response_is_gone_on_from_and_read_again_as_it_was_chosen(
    trio: Ensemble, token: str, servers: dict[str, StubUpstream]
) -> None:
    for name in ("second", "third"):
        servers[name].plan(reply="It is four.")
    with GatewayProcess() as gateway:
        first = gateway.post("/v1/responses", {"model": "ensemble/trio", "input": "how many?"}, token=token).json()
        told = {"model": "ensemble/trio", "input": "and now?", "previous_response_id": first["id"]}
        assert gateway.post("/v1/responses", told, token=token).status_code == 200
        headers = {"Authorization": f"Bearer {token}"}
        again = gateway.client.get(f"/v1/responses/{first['id']}", headers=headers).json()
    assert again["output"][0]["content"][0]["text"] == "It is four."
    said = [message["content"] for message in servers["first"].requests[-1]["body"]["messages"]]
    assert said == ["how many?", "It is four.", "and now?"]


def test_of_a_caller_that_goes_away_every_members_call_is_recorded(
    edge: GatewayThread, token: str, servers: dict[str, StubUpstream]
) -> None:
    for name in ("second", "third"):
        servers[name].plan(think_s=600)
    with suppress(httpx.ReadTimeout):
        edge.client.post(
            "/v1/chat/completions",
            json=HELLO | {"model": "ensemble/trio"},
            headers={"Authorization": f"Bearer {token}"},
            timeout=2,
        )
    wait_for(lambda: len(edge.records) == 3)
    assert [record.header["error"] for record in edge.records] == ["", *["the caller went away"] * 2]
    wait_for(lambda: not any(server.open_requests for server in servers.values()))
