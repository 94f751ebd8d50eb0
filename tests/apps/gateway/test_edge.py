"""What callers get from the gateway, and what is handed over for capture: the failures that gateways are known for."""

import json
import re
import threading
import time
from typing import Any

import httpx
import pytest

from apps.accounts.models import Project
from apps.gateway.capture import capture
from apps.gateway.edge import Patience
from apps.gateway.merging import load_merged
from apps.workers.models import Worker
from tentalis.limits import LIMITS
from tests.apps.gateway.running import HELLO, GatewayThread, Streamed, make_agent_token, make_chat_worker, make_provider
from tests.apps.gateway.upstream import StubUpstream, logprob_of, prompt_tokens_of


def wait_for(condition: Any, *, most_s: float = 60.0) -> None:
    until = time.monotonic() + most_s
    while not condition():
        assert time.monotonic() < until, "it did not come about in time"
        time.sleep(0.01)


def test_an_answer_comes_without_the_tokens_nobody_asked_for_and_is_kept_with_them(
    gateway: GatewayThread, token: str, helper: Worker
) -> None:
    response = gateway.chat("helper", token=token)
    answer = response.json()
    assert response.status_code == 200
    assert answer["choices"][0]["message"]["content"] == "word0 word1 word2 word3 word4 word5 word6 word7"
    assert "token_ids" not in answer["choices"][0]
    assert "prompt_token_ids" not in answer
    assert answer["choices"][0]["logprobs"] is None
    [record] = gateway.records
    [part], told = load_merged(record.answer)
    assert told.prompt_token_ids == prompt_tokens_of(HELLO["messages"])
    assert part.logprobs == [logprob_of(token) for token in part.token_ids]
    header = record.header
    assert response.headers["X-Tentalis-Exchange"] == header["id"]
    assert response.headers["X-Tentalis-Adapter"] == header["served"] == "base"
    assert (header["project"], header["worker"], header["api"]) == (helper.project_id, "helper", "chat")
    assert (header["agent"], header["turn"], header["status"]) == ("agent:claw", "main", 200)
    assert json.loads(record.request) == HELLO | {"model": "helper"}


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("kind", ["vllm", "custom"])
def test_an_answers_own_id_names_its_exchange(
    project: Project, helper: Worker, token: str, upstream: StubUpstream, kind: str, is_stream: bool
) -> None:
    make_chat_worker(project, make_provider(project, upstream.url, name="other", kind=kind), "other")
    with GatewayThread() as gateway:
        response = gateway.chat("other", token=token, stream=is_stream)
        ids = {chunk["id"] for chunk in Streamed(response).chunks} if is_stream else {response.json()["id"]}
        assert ids == {f"chatcmpl-{response.headers['X-Tentalis-Exchange']}"}


def test_tokens_that_were_asked_for_stay(gateway: GatewayThread, token: str) -> None:
    answer = gateway.chat("helper", token=token, logprobs=True, return_token_ids=True).json()
    assert answer["choices"][0]["token_ids"]
    assert answer["choices"][0]["logprobs"]["content"]
    assert answer["prompt_token_ids"]


def test_a_stream_says_the_same_as_a_whole_answer(gateway: GatewayThread, token: str) -> None:
    whole = gateway.chat("helper", token=token).json()
    streamed = gateway.stream("helper", token=token)
    assert streamed.text() == whole["choices"][0]["message"]["content"]
    assert streamed.is_done
    assert not [chunk for chunk in streamed.chunks if "usage" in chunk or "prompt_token_ids" in chunk]
    assert not [choice for chunk in streamed.chunks for choice in chunk["choices"] if "token_ids" in choice]
    kept, same = (capture(record)[0] for record in gateway.records)
    assert kept.token_ids
    assert same == kept._replace(header=same.header, request=same.request)
    assert streamed.response.headers["X-Tentalis-Adapter"] == "base"


def test_a_stream_tells_its_usage_to_who_asked(gateway: GatewayThread, token: str) -> None:
    streamed = gateway.stream("helper", token=token, stream_options={"include_usage": True})
    assert streamed.chunks[-1]["usage"]["completion_tokens"] == 9


@pytest.mark.parametrize("is_stream", [False, True])
def test_all_of_n_choices_come_and_are_kept(gateway: GatewayThread, token: str, is_stream: bool) -> None:
    response = gateway.chat("helper", token=token, n=2, stream=is_stream)
    if is_stream:
        texts = [Streamed(response).text(index) for index in (0, 1)]
    else:
        texts = [choice["message"]["content"] for choice in response.json()["choices"]]
    assert texts[1] == f"{texts[0]} 1"
    assert [one.finish_reason for one in capture(gateway.records[0])] == ["stop", "stop"]


def test_429_keeps_its_retry_after_and_its_words(gateway: GatewayThread, token: str, upstream: StubUpstream) -> None:
    upstream.plan(status=429, retry_after="7")
    response = gateway.chat("helper", token=token)
    assert (response.status_code, response.headers["Retry-After"]) == (429, "7")
    error = response.json()["error"]
    assert error["type"] == "rate_limit_error"
    assert "told to answer 429" in error["message"]
    assert [(record.header["status"], record.answer) for record in gateway.records] == [(429, b"")]


@pytest.mark.parametrize("is_stream", [False, True])
def test_tool_calls_pass_unharmed(gateway: GatewayThread, token: str, upstream: StubUpstream, is_stream: bool) -> None:
    arguments = '{"city": "Zürich", "days": 3}'
    upstream.plan(tool_calls=[["look", arguments], ["tell", "{}"]])
    response = gateway.chat("helper", token=token, stream=is_stream)
    if is_stream:
        found: dict[int, list[str]] = {}
        for delta in Streamed(response).deltas():
            for call in delta.get("tool_calls", ()):
                name, piece = call["function"].get("name", ""), call["function"]["arguments"]
                whole = found.setdefault(call["index"], ["", ""])
                found[call["index"]] = [whole[0] + name, whole[1] + piece]
        calls = list(found.values())
    else:
        message = response.json()["choices"][0]["message"]
        calls = [[call["function"]["name"], call["function"]["arguments"]] for call in message["tool_calls"]]
    assert calls == [["look", arguments], ["tell", "{}"]]


def test_streamed_reasoning_passes_and_is_kept(gateway: GatewayThread, token: str, upstream: StubUpstream) -> None:
    upstream.plan(reasoning="first I think")
    streamed = gateway.stream("helper", token=token)
    assert streamed.text(of="reasoning_content") == "first I think"
    assert capture(gateway.records[0])[0].reasoning == "first I think"


@pytest.mark.parametrize(
    "how", [{"has_space": False}, {"newline": "\r\n"}, {"bytes_a_write": 7}, {"says_done": False}], ids=str
)
def test_a_stream_may_be_written_in_any_way(
    gateway: GatewayThread, token: str, upstream: StubUpstream, how: dict[str, Any]
) -> None:
    upstream.plan(**how)
    streamed = gateway.stream("helper", token=token)
    assert streamed.text() == "word0 word1 word2 word3 word4 word5 word6 word7"
    assert streamed.is_done
    assert not gateway.records[0].header["is_truncated"]


def test_a_stream_that_breaks_off_ends_in_an_error_and_is_marked(
    gateway: GatewayThread, token: str, upstream: StubUpstream
) -> None:
    upstream.plan(truncate_after=4)
    streamed = gateway.stream("helper", token=token)
    assert streamed.text() == "word0 word1 word2"
    assert not streamed.is_done
    assert streamed.error["code"] == "upstream_broke_off"
    [record] = gateway.records
    assert record.header["is_truncated"]
    assert capture(record)[0].text == "word0 word1 word2"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"])
def test_an_answer_that_comes_whole_to_who_wanted_a_stream_is_told_as_one(
    gateway: GatewayThread, token: str, upstream: StubUpstream, path: str
) -> None:
    asked = {"/v1/completions": {"prompt": "hi"}, "/v1/responses": {"input": "hi"}}.get(path, HELLO)
    body = asked | {"model": "helper", "stream": True, "max_tokens": 50}
    upstream.plan(tool_calls=[] if path == "/v1/completions" else [["look", "{}"], ["tell", "{}"]])

    def ask() -> str:
        text = gateway.client.post(path, json=body, headers={"x-api-key": token}).text
        return re.sub(r"[0-9a-f]{32}", "", text.partition("[DONE]")[0])

    streamed = ask()
    upstream.plan(answers_whole=True)
    whole = ask()
    assert "word7" in whole
    assert whole.count("tell") == streamed.count("tell")
    for last in ("message_stop", "response.completed"):
        assert (last in whole) == (last in streamed)
    one, other = (capture(record)[0] for record in gateway.records)
    for name in (
        "text",
        "tool_calls",
        "finish_reason",
        "prompt_token_ids",
        "token_ids",
        "logprobs",
        "completion_tokens",
    ):
        assert getattr(one, name) == getattr(other, name), name
    assert other.token_ids
    assert not other.is_truncated


@pytest.mark.parametrize(
    ("plan", "status", "code", "words"),
    [
        ({"says_error": {"message": "no room", "code": 429}}, 429, "429", "no room"),
        ({"says_error": {"message": "bad prompt", "type": "bad"}}, 502, "bad", "bad prompt"),
        ({"says_error": {"message": "too long", "code": 400}}, 400, "400", "too long"),
        ({"garbage": True}, 502, "upstream_unreadable", "wanted events, found b'<html>"),
    ],
    ids=str,
)
def test_an_error_instead_of_a_stream_keeps_its_status_and_words(
    gateway: GatewayThread, token: str, upstream: StubUpstream, plan: dict[str, Any], status: int, code: str, words: str
) -> None:
    upstream.plan(**plan)
    response = gateway.chat("helper", token=token, stream=True)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (status, code)
    assert words in error["message"]
    assert words in gateway.records[0].header["error"]
    assert len(upstream.requests) == 1


def test_a_server_that_says_when_to_come_back_is_not_asked_before(
    gateway: GatewayThread, token: str, upstream: StubUpstream
) -> None:
    upstream.plan(status=503, retry_after="70")
    response = gateway.chat("helper", token=token)
    assert (response.status_code, response.headers["Retry-After"]) == (503, "70")
    assert len(upstream.requests) == 1


def test_a_vendor_is_not_paid_twice_for_an_answer_that_broke_off(
    project: Project, helper: Worker, token: str, upstream: StubUpstream
) -> None:
    make_chat_worker(project, make_provider(project, upstream.url, name="dear", kind="custom"), "dear")
    upstream.plan(truncate_after=1)
    with GatewayThread() as gateway:
        assert gateway.chat("dear", token=token).status_code == 503
    assert len(upstream.requests) == 1


def test_an_error_in_the_middle_of_a_stream_is_told(gateway: GatewayThread, token: str, upstream: StubUpstream) -> None:
    upstream.plan(fail_after=3)
    streamed = gateway.stream("helper", token=token)
    assert "told to fail" in streamed.error["message"]
    assert not streamed.is_done
    assert gateway.records[0].header["is_truncated"]


def test_a_whole_answer_that_breaks_off_is_an_error_and_no_answer(
    gateway: GatewayThread, token: str, upstream: StubUpstream
) -> None:
    upstream.plan(truncate_after=1)
    response = gateway.chat("helper", token=token)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "upstream_down")


def test_what_is_no_answer_is_an_error_object(gateway: GatewayThread, token: str, upstream: StubUpstream) -> None:
    upstream.plan(garbage=True)
    response = gateway.chat("helper", token=token)
    assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_unreadable")
    assert gateway.records[0].answer == b"<html>it works</html>"


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/chat/completions", HELLO),
        ("/v1/messages", HELLO | {"max_tokens": 5}),
        ("/v1/responses", {"input": "hello"}),
        ("/v1/completions", {"prompt": "hello"}),
    ],
)
def test_a_dead_upstream_is_an_error_in_the_words_of_the_api(
    project: Project, helper: Worker, token: str, path: str, asked: dict[str, Any]
) -> None:
    with StubUpstream() as doomed:
        make_chat_worker(project, make_provider(project, doomed.url, name="doomed"), "lonely")
    with GatewayThread(patience=Patience(down_s=0.0)) as gateway:
        response = gateway.client.post(path, json=asked | {"model": "lonely"}, headers={"x-api-key": token})
        assert response.status_code == 503
        assert response.headers["Retry-After"]
        assert response.json()["error"]["type"] == ("overloaded_error" if "messages" in path else "server_error")
        assert "Traceback" not in response.text
        assert gateway.records[0].header["error"] == "doomed is down: no connection"


def test_a_server_that_comes_back_in_time_is_waited_for(project: Project, token: str, helper: Worker) -> None:
    with StubUpstream() as first:
        port = first.port
        make_chat_worker(project, make_provider(project, first.url, name="tired"), "late")
    with GatewayThread(patience=Patience(down_s=20.0)) as gateway:
        answers: list[httpx.Response] = []
        asking = threading.Thread(target=lambda: answers.append(gateway.chat("late", token=token)))
        asking.start()
        wait_for(lambda: gateway.edge.metrics.failovers)
        with StubUpstream(port=port):
            asking.join(20)
        assert [answer.status_code for answer in answers] == [200]


def test_of_two_upstreams_one_dies_and_no_request_fails(project: Project, token: str, helper: Worker) -> None:
    with StubUpstream(token_s=0.001) as stays, StubUpstream(token_s=0.001) as dies:
        make_chat_worker(project, make_provider(project, stays.url, name="pair", more_urls=[dies.url]), "twice")
        with GatewayThread() as gateway:
            statuses: list[int] = []
            served: set[str] = set()

            def ask(number: int) -> None:
                for turn in range(20):
                    session = {"X-Session-Id": f"session-{number}-{turn}"}
                    statuses.append(gateway.chat("twice", token=token, headers=session).status_code)

            callers = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
            for caller in callers:
                caller.start()
            wait_for(lambda: len(statuses) > 20)
            dies.kill()
            for caller in callers:
                caller.join(30)
            served = {record.header["upstream"] for record in gateway.records}
            after = {record.header["upstream"] for record in gateway.records[-20:]}
    assert statuses == [200] * 80
    assert served == {stays.url, dies.url}
    assert after == {stays.url}


def test_a_session_stays_with_its_upstream(project: Project, token: str, helper: Worker) -> None:
    with StubUpstream() as one, StubUpstream() as two:
        make_chat_worker(project, make_provider(project, one.url, name="pair", more_urls=[two.url]), "twice")
        with GatewayThread() as gateway:
            for session in [*range(24)] * 2:  # with a few, chance may put all of them on one
                gateway.chat("twice", token=token, headers={"X-Session-Id": str(session)})
            places: dict[str, set[str]] = {}
            for record in gateway.records:
                places.setdefault(record.header["session"], set()).add(record.header["upstream"])
    assert all(len(addresses) == 1 for addresses in places.values())
    assert len(set.union(*places.values())) == 2


def test_a_silent_upstream_is_given_up_after_its_time(project: Project, upstream: StubUpstream, token: str) -> None:
    make_chat_worker(project, make_provider(project, upstream.url, timeout_s=0.3), "slow")
    upstream.plan(think_s=5)
    with GatewayThread() as gateway:
        response = gateway.chat("slow", token=token)
    assert (response.status_code, response.json()["error"]["code"]) == (504, "upstream_timeout")


def test_a_long_silence_is_filled_with_comments(helper: Worker, upstream: StubUpstream, token: str) -> None:
    upstream.plan(think_s=1.5)
    with GatewayThread(patience=Patience(heartbeat_s=0.3)) as gateway:
        streamed = gateway.stream("helper", token=token)
    assert streamed.response.text.startswith(": ping\n\n")
    assert streamed.is_done


def test_a_caller_who_leaves_stops_the_upstream_and_is_recorded(
    gateway: GatewayThread, upstream: StubUpstream, token: str
) -> None:
    upstream.plan(token_s=0.05, tokens=400)
    body = HELLO | {"model": "helper", "stream": True}
    headers = {"Authorization": f"Bearer {token}"}
    with gateway.client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as response:
        assert response.status_code == 200, response.read()
        pieces = response.iter_raw()
        next(pieces)
        assert upstream.open_requests == 1
    wait_for(lambda: gateway.records)
    assert gateway.records[0].header["is_truncated"]
    assert gateway.records[0].header["error"] == "the caller went away"
    wait_for(lambda: upstream.open_requests == 0)
    assert gateway.edge.in_flight == 0


def test_more_than_fits_is_refused_with_a_time_to_come_back(helper: Worker, upstream: StubUpstream, token: str) -> None:
    upstream.plan(think_s=1.0)
    with GatewayThread(most_in_flight=1) as gateway:
        first = threading.Thread(target=lambda: gateway.chat("helper", token=token))
        first.start()
        wait_for(lambda: gateway.edge.in_flight)
        response = gateway.chat("helper", token=token)
        assert (response.status_code, response.headers["Retry-After"]) == (429, "1")
        first.join()
        assert gateway.chat("helper", token=token).status_code == 200
    assert [record.header["status"] for record in gateway.records] == [429, 200, 200]


def test_nothing_is_answered_that_could_not_be_recorded(gateway: GatewayThread, token: str) -> None:
    gateway.spool.is_full = True
    response = gateway.chat("helper", token=token)
    assert (response.status_code, response.json()["error"]["code"]) == (429, "spool_full")
    assert response.headers["Retry-After"] == "5"
    gateway.spool.is_full = False
    assert gateway.chat("helper", token=token).status_code == 200


@pytest.mark.parametrize(("is_stream", "status"), [(False, 503), (True, 200)])
@pytest.mark.parametrize("refuses", [0, 1, 2])
def test_an_answer_is_charged_and_counted_once_whether_its_record_is_kept_or_not(
    gateway: GatewayThread, token: str, is_stream: bool, status: int, refuses: int
) -> None:
    gateway.spool.refuses = refuses
    response = gateway.chat("helper", token=token, stream=is_stream)
    status = status if refuses else 200
    assert (response.status_code, "cannot be recorded" in response.text) == (status, refuses > 0)
    metrics = gateway.edge.metrics
    wait_for(lambda: metrics.answers.total())
    assert metrics.answers == {("chat", status): 1}
    used = metrics.tokens
    gateway.spool.refuses = 0
    gateway.chat("helper", token=token)
    wait_for(lambda: metrics.answers.total() == 2)
    assert used * 2 == metrics.tokens > 0
    assert [record.header["status"] for record in gateway.records] == {
        0: [200, 200],
        1: [200] if is_stream else [503, 200],
        2: [200],
    }[refuses]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "not JSON"),
        (b"[]", 400, "must be a JSON object, found list"),
        (b"{", 400, "not JSON"),
        (b'{"messages": []}', 400, "model must be"),
        (b'{"model": "helper"}', 400, "messages"),
        (b'{"model": 7, "messages": [{"role": "user", "content": "x"}]}', 400, "model must be"),
        (b'{"model": "nobody", "messages": [{"role": "user", "content": "x"}]}', 404, "no model 'nobody'"),
        (b'{"model": "ensemble/all", "messages": [{"role": "user", "content": "x"}]}', 404, "no ensemble 'all'"),
        (b'{"model": "helper", "n": 1000, "messages": [{"role": "user", "content": "x"}]}', 400, "at most 64"),
        (b'{"model": "helper", "n": 0, "messages": [{"role": "user", "content": "x"}]}', 400, "n: wanted 1 or more"),
        (
            b'{"model": "helper", "stream": "false", "messages": [{"role": "user", "content": "x"}]}',
            400,
            "stream: wanted true or false, found 'false'",
        ),
    ],
)
def test_a_wrong_request_is_told_what_was_wanted(
    gateway: GatewayThread, token: str, body: bytes, status: int, words: str
) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    response = gateway.client.post("/v1/chat/completions", content=body, headers=headers)
    assert response.status_code == status
    assert words in response.json()["error"]["message"]


def test_a_field_the_server_refuses_is_its_own_word(gateway: GatewayThread, token: str, upstream: StubUpstream) -> None:
    upstream.plan(status=400)
    response = gateway.chat("helper", token=token)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "stub"


def test_a_server_that_refuses_our_key_is_no_401_of_the_caller(
    gateway: GatewayThread, token: str, upstream: StubUpstream
) -> None:
    upstream.plan(status=401)
    response = gateway.chat("helper", token=token)
    assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_refused_key")


def test_a_server_that_answers_as_another_is_found_out(
    gateway: GatewayThread, token: str, upstream: StubUpstream
) -> None:
    upstream.plan(served_as="somebody-else")
    response = gateway.chat("helper", token=token)
    assert response.headers["X-Tentalis-Adapter"] == "somebody-else"
    header = gateway.records[0].header
    assert (header["asked"], header["served"], header["adapter"]) == ("base", "somebody-else", "")


def test_a_server_that_knows_no_tokens_is_not_asked_for_any(
    project: Project, helper: Worker, token: str, upstream: StubUpstream
) -> None:
    make_chat_worker(project, make_provider(project, upstream.url, name="plain", kind="custom"), "plain")
    upstream.plan(is_strict=True)
    with GatewayThread() as gateway:
        assert gateway.chat("plain", token=token).status_code == 200
        assert gateway.stream("plain", token=token).is_done
    assert not [seen for seen in upstream.requests if "logprobs" in seen["body"]]


def test_a_providers_model_is_asked_by_its_own_name(gateway: GatewayThread, token: str) -> None:
    assert gateway.chat("stub/base", token=token).status_code == 200
    header = gateway.records[0].header
    assert (header["worker"], header["model"], header["asked"]) == ("", "stub/base", "base")


def test_private_addresses_are_asked_only_where_an_admin_allowed_them(
    project: Project, helper: Worker, token: str, upstream: StubUpstream
) -> None:
    make_chat_worker(project, make_provider(project, upstream.url, name="sly", allow_private=False), "sly")
    with GatewayThread(patience=Patience(down_s=0.0)) as gateway:
        response = gateway.chat("sly", token=token)
    assert response.status_code == 503
    assert "private address" in response.json()["error"]["message"]
    assert upstream.requests == []


def test_what_a_caller_is_called_upstream_is_not_who_it_is(
    gateway: GatewayThread, token: str, upstream: StubUpstream
) -> None:
    gateway.chat("helper", token=token, headers={"X-Secret": "mine", "Cookie": "mine"})
    headers = upstream.requests[0]["headers"]
    assert token not in str(headers)
    assert "mine" not in headers.values()


def test_models_are_listed_for_both_libraries(gateway: GatewayThread, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    listed = gateway.client.get("/v1/models", headers=headers).json()
    assert [row["id"] for row in listed["data"]] == ["helper", "stub/base"]
    assert listed["data"][0]["object"] == "model"
    assert listed["has_more"] is False
    assert gateway.client.get("/v1/models/helper", headers=headers).json()["id"] == "helper"
    assert gateway.client.get("/v1/models/nobody", headers=headers).status_code == 404
    assert "max_model_len" not in listed["data"][0]


def test_models_tell_what_they_take_where_that_is_known(helper: Worker, token: str) -> None:
    type(helper.provider).objects.update(probe={"model": "base", "context_tokens": 8192})  # type: ignore[union-attr]
    Worker.objects.update(base_facts={"context_tokens": 4096})
    with GatewayThread() as gateway:
        found = gateway.client.get("/models", headers={"x-api-key": token, "anthropic-version": "2023-06-01"}).json()
    told = {
        row["id"]: {row[name] for name in ("max_model_len", "context_length", "max_input_tokens")}
        for row in found["data"]
    }
    assert told == {"helper": {4096}, "stub/base": {8192}}
    assert {row["lifecycle"] for row in found["data"]} == {"active"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/chat/completions", 405), ("POST", "/v1/unknown", 404), ("GET", "/", 404), ("DELETE", "/health", 405)],
)
def test_other_paths_are_refused_in_the_same_shape(gateway: GatewayThread, method: str, path: str, status: int) -> None:
    response = gateway.client.request(method, path)
    assert response.status_code == status
    assert response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/logs", "OTEL_LOGS_EXPORTER=none"),
        ("/v1/metrics", "OTEL_METRICS_EXPORTER=none"),
        ("/v1/responses/compact", "send the whole conversation"),
        ("/responses/input_tokens", "/v1/messages/count_tokens"),
    ],
)
def test_what_clients_ask_for_and_nothing_answers_says_what_to_do_instead(
    gateway: GatewayThread, path: str, words: str
) -> None:
    response = gateway.client.post(path, json={})
    assert response.status_code == 404
    assert words in response.json()["error"]["message"]


def test_health_and_metrics_need_no_token(gateway: GatewayThread, token: str) -> None:
    gateway.chat("helper", token=token)
    assert gateway.client.get("/health").json()["status"] == "ok"
    assert gateway.client.get("/readyz").status_code == 200
    text = gateway.client.get("/metrics").text
    assert 'tentalis_gateway_answers_total{api="chat",status="200"} 1.0' in text
    assert 'tentalis_gateway_latency_seconds_bucket{le="+Inf"} 1.0' in text


def test_a_body_that_is_too_large_is_refused(gateway: GatewayThread, token: str) -> None:
    body = b'{"model": "%s"}' % (b"x" * (LIMITS.gateway_body_bytes + 1))
    response = gateway.client.post("/v1/chat/completions", content=body, headers={"x-api-key": token})
    assert (response.status_code, response.json()["error"]["code"]) == (413, "too_large")


def test_sessions_named_in_the_path_are_the_same_api(gateway: GatewayThread, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}", "X-Session-Id": "in-the-header"}
    body = HELLO | {"model": "helper"}
    response = gateway.client.post("/sessions/my%20own/v1/chat/completions", json=body, headers=headers)
    assert response.status_code == 200
    assert gateway.records[0].header["session"] == "my own"


def test_a_name_in_no_encoding_is_kept_as_far_as_it_goes(gateway: GatewayThread, token: str) -> None:
    headers = {b"Authorization": f"Bearer {token}".encode(), b"X-Session-Id": b"caf\xe9-1"}
    response = gateway.client.post("/v1/chat/completions", json=HELLO | {"model": "helper"}, headers=headers)
    assert response.status_code == 200
    assert gateway.records[0].header["session"] == "caf?-1"


def test_an_agent_of_another_project_sees_none_of_it(gateway: GatewayThread) -> None:
    other = Project.objects.create(slug="other", name="Other")
    charlies = make_agent_token(other, "charlies-agent")
    assert gateway.chat("helper", token=charlies).status_code == 404
    assert gateway.chat("stub/base", token=charlies).status_code == 404
    assert gateway.client.get("/v1/models", headers={"x-api-key": charlies}).json()["data"] == []
    assert gateway.client.get("/sessions/any/traces", headers={"x-api-key": charlies}).status_code == 404
