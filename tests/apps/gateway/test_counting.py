"""`POST /v1/messages/count_tokens`: the number of the server that would answer, or none at all."""

from collections.abc import Iterator
from typing import Any

import pytest
from anthropic import Anthropic

from apps.accounts.models import Project
from apps.workers.models import Worker
from tentalis.limits import LIMITS
from tests.apps.gateway.running import GatewayThread, make_chat_worker, make_provider
from tests.apps.gateway.upstream import StubUpstream, prompt_tokens_of

PATH = "/v1/messages/count_tokens"
SAID: list[Any] = [{"role": "user", "content": "How many words are these?"}]
TOOL = {"name": "weather", "description": "the sky", "input_schema": {"type": "object", "properties": {}}}


@pytest.fixture
def running(helper: Worker, project: Project, upstream: StubUpstream) -> Iterator[GatewayThread]:
    for kind in ("anthropic", "custom"):
        make_chat_worker(project, make_provider(project, upstream.url, name=f"far-{kind}", kind=kind), kind)
    with GatewayThread() as gateway:
        yield gateway


def test_a_server_with_vllms_tokenize_counts_the_conversation_and_its_tools(
    running: GatewayThread, token: str, upstream: StubUpstream
) -> None:
    with Anthropic(base_url=running.url, api_key=token, max_retries=0) as client:
        counted = client.messages.count_tokens(model="helper", system="Be brief.", messages=SAID, tools=[TOOL])
    said = [{"role": "system", "content": "Be brief."}, *SAID]
    assert counted.input_tokens == len(prompt_tokens_of(said))
    [seen] = upstream.requests
    assert seen["path"] == "/tokenize"
    assert (seen["body"]["model"], seen["body"]["messages"]) == ("base", said)
    assert seen["body"]["tools"][0]["function"]["name"] == "weather"
    assert running.records == []


def test_anthropics_server_counts_itself(running: GatewayThread, token: str, upstream: StubUpstream) -> None:
    body = {"model": "anthropic", "messages": SAID, "tools": [{"type": "web_search_20250305", "name": "web_search"}]}
    response = running.client.post(PATH, json=body, headers={"x-api-key": token})
    [seen] = upstream.requests
    assert (seen["path"], seen["body"]) == ("/v1/messages/count_tokens", body | {"model": "base"})
    assert response.json() == {"input_tokens": len('[{"role": "user", "content": "How many words are these?"}]')}


def test_who_cannot_count_is_not_guessed_for(running: GatewayThread, token: str, upstream: StubUpstream) -> None:
    body = {"model": "custom", "messages": SAID}
    response = running.client.post(PATH, json=body, headers={"x-api-key": token})
    assert response.status_code == 501
    assert response.json()["type"] == "error"
    assert "far-custom" in response.json()["error"]["message"]
    assert upstream.requests == []


@pytest.mark.parametrize(("status", "told"), [(404, 501), (400, 400), (503, 503), (401, 502), (429, 429)])
def test_a_server_that_refuses_to_count_is_told_of(
    running: GatewayThread, token: str, upstream: StubUpstream, status: int, told: int
) -> None:
    upstream.plan(status=status)
    response = running.client.post(PATH, json={"model": "helper", "messages": SAID}, headers={"x-api-key": token})
    assert (response.status_code, response.json()["type"]) == (told, "error")


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"[]", 400), (b'{"model": "helper"}', 400), (b'{"model": "nobody", "messages": []}', 404)],
)
def test_a_wrong_request_is_refused_in_anthropics_shape(
    running: GatewayThread, token: str, content: bytes, status: int
) -> None:
    response = running.client.post(PATH, content=content, headers={"x-api-key": token})
    assert (response.status_code, response.json()["type"]) == (status, "error")
    assert running.client.post(PATH, content=content).status_code == 401
    assert running.edge.in_flight == 0


def test_too_much_is_not_read(running: GatewayThread, token: str) -> None:
    content = b'{"model": "%s"}' % (b"x" * (LIMITS.gateway_body_bytes + 1))
    assert running.client.post(PATH, content=content, headers={"x-api-key": token}).status_code == 413
