"""What no conversation is made of goes through with rights, limits and figures, and is not kept."""

from datetime import timedelta

import pytest
from django.utils import timezone

from apps.accounts.models import Project
from apps.gateway.passing import PASSED, read_use, read_wanted
from apps.inference.models import Exchange, Price, Session
from apps.workers.models import Worker
from tests.apps.gateway.running import GatewayThread, make_agent_token, make_provider
from tests.apps.gateway.upstream import StubUpstream


@pytest.fixture
def priced(helper: Worker) -> Worker:
    at = timezone.now() - timedelta(days=1)
    Price.objects.create(provider=helper.provider, model="embed-small", input=1000, output=0, valid_from=at)
    return helper


def test_an_embedding_is_handed_over_counted_and_forgotten(
    priced: Worker, gateway: GatewayThread, token: str, upstream: StubUpstream
) -> None:
    body = {"model": "stub/embed-small", "input": ["a secret"], "dimensions": 2, "session_id": "mine"}
    response = gateway.client.post("/v1/embeddings", json=body, headers={"api-key": token})
    assert response.status_code == 200
    assert response.json()["data"][0]["embedding"] == [0.5, -0.25]
    [seen] = upstream.requests
    assert seen["path"] == "/v1/embeddings"
    assert seen["body"] == {"model": "embed-small", "input": ["a secret"], "dimensions": 2}
    row = Exchange.objects.get()
    assert (row.api, row.turn, row.model, row.prompt_tokens, row.session) == (
        "embeddings",
        "side",
        "embed-small",
        7,
        None,
    )
    assert (row.agent, row.public_id.hex) == ("agent:claw", response.headers["X-Tentalis-Exchange"])
    assert row.cost_usd is not None
    assert float(row.cost_usd) == pytest.approx(0.007)
    assert (row.messages, row.request, row.text) == ([], {}, "")
    assert gateway.records == []
    assert not Session.objects.exists()


@pytest.mark.parametrize("path", [*PASSED, "/embeddings", "/audio/speech"])
def test_each_path_is_asked_of_the_models_server(
    gateway: GatewayThread, token: str, upstream: StubUpstream, path: str
) -> None:
    response = gateway.client.post(path, json={"model": "helper", "input": "hi"}, headers={"x-api-key": token})
    assert response.status_code == 200
    assert upstream.requests[0]["path"] == f"/v1{path.removeprefix('/v1')}"
    if path.endswith("speech"):
        assert (response.content, response.headers["Content-Type"]) == (b"ID3sound", "audio/mpeg")


def test_a_form_names_its_model(gateway: GatewayThread, token: str, upstream: StubUpstream) -> None:
    files = {"file": ("a.wav", b'RIFF\r\n\r\nname="model"\r\n\r\nno', "audio/wav")}
    headers = {"x-api-key": token}
    heard = gateway.client.post("/v1/audio/transcriptions", data={"model": "helper"}, files=files, headers=headers)
    assert heard.json()["text"] == "heard"
    form = upstream.requests[0]["body"]["form"]
    assert 'name="model"\r\n\r\nbase\r\n' in form
    assert "RIFF" in form
    none = gateway.client.post("/v1/audio/transcriptions", data={"language": "de"}, files=files, headers=headers)
    assert (none.status_code, none.json()["error"]["param"]) == (400, "model")


def test_what_cannot_be_had_is_said_in_words(
    project: Project, gateway: GatewayThread, token: str, upstream: StubUpstream
) -> None:
    def ask(model: str = "helper", who: str = token) -> tuple[int, str]:
        answer = gateway.client.post("/v1/embeddings", json={"model": model, "input": "x"}, headers={"api-key": who})
        return answer.status_code, answer.json()["error"]["code"]

    assert ask("nobody") == (404, "model_not_found")
    assert ask(who=make_agent_token(Project.objects.create(slug="other"), "spy")) == (404, "model_not_found")
    upstream.plan(status=429, retry_after="9")
    busy = gateway.client.post("/v1/rerank", json={"model": "helper"}, headers={"api-key": token})
    assert (busy.status_code, busy.headers["Retry-After"], busy.json()["error"]["code"]) == (429, "9", "stub")
    upstream.plan(status=503)
    assert ask() == (503, "upstream_down")
    assert not Exchange.objects.exists()


def test_limits_hold(project: Project, helper: Worker, upstream: StubUpstream) -> None:
    token = make_agent_token(project, "thrifty", requests_per_minute=1)
    with GatewayThread() as gateway:
        statuses = [
            gateway.client.post("/v1/embeddings", json={"model": "helper"}, headers={"api-key": token}).status_code
            for _ in range(2)
        ]
    assert statuses == [200, 429]


def test_a_server_of_messages_has_none(project: Project, helper: Worker, token: str, upstream: StubUpstream) -> None:
    make_provider(project, upstream.url, name="far", kind="anthropic")
    with GatewayThread() as gateway:
        answer = gateway.client.post("/v1/embeddings", json={"model": "far/x"}, headers={"api-key": token})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "not_supported")


def test_usage_has_many_names() -> None:
    assert read_use(b'{"usage": {"input_tokens": 3, "output_tokens": 4}}')[:2] == (3, 4)
    assert read_use(b'{"usage": {"total_tokens": 5}}')[:2] == (5, 0)
    assert read_use(b'{"usage": {"prompt_tokens": -1}}')[:2] == (0, 0)
    assert read_use(b"sound")[:2] == (0, 0)
    assert read_wanted(b'{"model": "m"}', "application/json").write("n") == b'{"model":"n"}'
