"""Workers whose server is Anthropic's: what only it can do reaches it, and what it signed goes back to it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from apps.accounts.models import Project
from apps.gateway.capture import capture
from apps.gateway.merging import merge_answer
from apps.workers.models import Worker
from tests.apps.gateway.running import GatewayProcess, GatewayThread, make_chat_worker, make_provider
from tests.apps.gateway.upstream import StubUpstream

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
FOUND = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "sky"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    {"type": "text", "text": "Blue."},
]
ASKED: dict[str, Any] = {
    "model": "claude",
    "max_tokens": 50,
    "system": [{"type": "text", "text": "Be brief."}],
    "tools": [SEARCH],
    "messages": [
        {"role": "user", "content": "Which colour has the sky?"},
        {"role": "assistant", "content": FOUND},
        {"role": "user", "content": "And at night?"},
    ],
}


@pytest.fixture
def claude(project: Project, helper: Worker, upstream: StubUpstream) -> Worker:
    return make_chat_worker(project, make_provider(project, upstream.url, name="far", kind="anthropic"), "claude")


@pytest.fixture
def running(claude: Worker, token: str) -> Iterator[GatewayThread]:
    with GatewayThread() as gateway:
        yield gateway


@pytest.mark.parametrize("is_stream", [False, True])
def test_built_in_tools_reach_the_server_as_the_caller_wrote_them(
    running: GatewayThread, token: str, upstream: StubUpstream, is_stream: bool
) -> None:
    body = ASKED | {"stream": is_stream, "session_id": "mine"}
    headers = {"x-api-key": token, "anthropic-beta": "computer-use-2025-01-24", "anthropic-version": "2099-01-01"}
    response = running.client.post("/v1/messages", json=body, headers=headers)
    assert response.status_code == 200
    [seen] = upstream.requests
    assert seen["body"] == ASKED | {"model": "base", "stream": is_stream}
    assert seen["headers"]["anthropic-beta"] == "computer-use-2025-01-24"
    assert seen["headers"]["anthropic-version"] == "2023-06-01"
    [captured] = capture(running.records[0])
    assert [message["role"] for message in captured.messages] == ["system", "user", "assistant", "user"]
    assert captured.messages[0]["content"] == "Be brief."
    assert captured.messages[2]["content"] == FOUND
    assert captured.request["tools"] == [SEARCH]
    assert captured.text == "hi"


def test_a_server_of_another_kind_is_asked_without_them_and_the_record_says_so(
    running: GatewayThread, token: str, upstream: StubUpstream
) -> None:
    body = ASKED | {"model": "helper", "messages": ASKED["messages"][:1]}
    assert running.client.post("/v1/messages", json=body, headers={"x-api-key": token}).status_code == 200
    assert not {"tools", "dropped_tools"} & upstream.requests[0]["body"].keys()
    [captured] = capture(running.records[0])
    assert captured.request["dropped_tools"] == ["web_search"]


@pytest.mark.parametrize("is_stream", [False, True])
def test_what_the_server_signed_is_kept_whole(
    running: GatewayThread, token: str, upstream: StubUpstream, is_stream: bool
) -> None:
    upstream.plan(reasoning="the sky again")
    response = running.chat("claude", token=token, stream=is_stream)
    assert response.status_code == 200
    [captured] = capture(running.records[0])
    signed = {"type": "thinking", "thinking": captured.reasoning, "signature": "c2lnbmVk"}
    assert captured.thinking_blocks == [signed]
    assert captured.reasoning.replace(" ", "") == "thesky" + "again"


def test_pieces_of_signed_thoughts_are_put_together() -> None:
    pieces = [
        {"type": "thinking", "thinking": "let ", "signature": ""},
        {"type": "thinking", "thinking": "me see", "signature": None},
        {"type": "thinking", "thinking": "", "signature": "s1"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "thinking", "thinking": "more", "signature": "s2"},
    ]
    chunks = [{"choices": [{"index": 0, "delta": {"thinking_blocks": [piece]}}]} for piece in pieces]
    [parts], _ = merge_answer(json.loads(json.dumps(chunks)))
    assert parts.thinking_blocks == [
        {"type": "thinking", "thinking": "let me see", "signature": "s1"},
        pieces[3],
        pieces[4],
    ]


@pytest.mark.broker
def test_what_was_signed_goes_back_where_an_answer_is_gone_on_from(
    claude: Worker, token: str, upstream: StubUpstream
) -> None:
    upstream.plan(reasoning="greeting")
    with GatewayProcess() as gateway:
        first = gateway.post("/v1/responses", {"model": "claude", "input": "hello"}, token=token).json()
        body = {"input": "and now?", "previous_response_id": first["id"]}
        assert gateway.post("/v1/responses", body | {"model": "claude"}, token=token).status_code == 200
        assert gateway.post("/v1/responses", body | {"model": "helper"}, token=token).status_code == 200
    to_claude, to_other = upstream.requests[1]["body"]["messages"], upstream.requests[2]["body"]["messages"]
    signed = {"type": "thinking", "thinking": "greeting", "signature": "c2lnbmVk"}
    assert to_claude[1]["content"] == [signed, {"type": "text", "text": "hi"}]
    assert "thinking_blocks" not in to_other[1]
    assert to_other[1]["reasoning_content"] == "greeting"
