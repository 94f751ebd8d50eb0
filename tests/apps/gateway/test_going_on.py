"""Requests that go on from an earlier answer: in its session, with all that was said and thought, and nobody else's."""

from collections.abc import Iterator

import pytest

from apps.accounts.models import Project
from apps.inference.models import Exchange, Session
from apps.workers.models import Worker
from tests.apps.gateway.running import GatewayProcess, make_agent_token
from tests.apps.gateway.test_edge import wait_for
from tests.apps.gateway.upstream import StubUpstream

pytestmark = pytest.mark.broker


@pytest.fixture
def running(helper: Worker, token: str) -> Iterator[GatewayProcess]:
    with GatewayProcess() as gateway:
        yield gateway


def test_an_answer_that_goes_on_is_in_its_session_and_remembers_the_thoughts(
    running: GatewayProcess, token: str, upstream: StubUpstream
) -> None:
    upstream.plan(reasoning="they greet me")
    first = running.post("/v1/responses", {"model": "helper", "input": "hello"}, token=token, X_Session_Id="mine")
    body = {"model": "helper", "input": "and now?", "previous_response_id": first.json()["id"]}
    second = running.post("/v1/responses", body, token=token)
    third = running.post("/v1/responses", body, token=token, X_Session_Id="another")
    assert (second.status_code, third.status_code) == (200, 200)
    asked = upstream.requests[1]["body"]["messages"]
    assert [message["role"] for message in asked] == ["user", "assistant", "user"]
    assert asked[1]["reasoning_content"] == "they greet me"
    wait_for(lambda: Exchange.objects.count() == 3)
    found = Exchange.objects.order_by("id").values_list("session__key", flat=True)
    assert list(found) == ["mine", "mine", "another"]
    assert Session.objects.count() == 2


def test_an_answer_that_is_not_to_be_stored_cannot_be_named_and_is_recorded_all_the_same(
    running: GatewayProcess, token: str, upstream: StubUpstream
) -> None:
    upstream.plan(reasoning="they greet me")
    asked = {"model": "helper", "input": "hello", "store": False}
    answer = running.post("/v1/responses", asked, token=token).json()
    assert answer["store"] is False
    assert "store" not in upstream.requests[0]["body"]
    wait_for(lambda: Exchange.objects.exists())
    read = running.client.get(f"/v1/responses/{answer['id']}", headers={"Authorization": f"Bearer {token}"})
    assert (read.status_code, read.json()["error"]["message"]) == (404, f"Response with id '{answer['id']}' not found.")
    body = {"model": "helper", "input": "and now?"}
    refused = running.post("/v1/responses", body | {"previous_response_id": answer["id"]}, token=token)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "previous_response_not_found")
    named = [{"type": "item_reference", "id": answer["output"][0]["id"]}, {"role": "user", "content": "and now?"}]
    assert running.post("/v1/responses", body | {"input": named}, token=token).status_code == 400
    kept = Exchange.objects.earliest("pk")
    assert (kept.has_exact_tokens, kept.deleted_at) == (True, None)


def test_nobody_goes_on_from_another_agents_answer_or_from_one_that_nobody_gave(
    running: GatewayProcess, token: str, project: Project
) -> None:
    other = make_agent_token(project, "other")
    first = running.post("/v1/responses", {"model": "helper", "input": "hello"}, token=token)
    body = {"model": "helper", "input": "what did they say?", "previous_response_id": first.json()["id"]}
    mine, theirs = (running.post("/v1/responses", body, token=each) for each in (token, other))
    assert mine.status_code == 200
    unknown = running.post("/v1/responses", body | {"previous_response_id": f"resp_{'0' * 32}"}, token=token)
    for refused in (theirs, unknown):
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "previous_response_not_found")
    assert "previous_response_id" in unknown.text
