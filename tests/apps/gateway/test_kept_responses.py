"""Answers of /v1/responses once more: read, listed, deleted, and named by their items."""

from typing import Any
from uuid import uuid4

import pytest

from apps.accounts.models import Project
from apps.audit.models import AuditEntry
from apps.inference.models import Exchange
from apps.inference.provider_kinds import KINDS
from tentalis.core.packing import pack_float32, pack_int32
from tests.apps.gateway.running import GatewayThread, make_agent_token
from tests.apps.gateway.upstream import StubUpstream

CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"order": 7}'}}
ASKED = [
    {"role": "system", "content": "Be brief.", "name": "instructions"},
    {"role": "user", "content": "Where is order 7?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "in Berlin"},
]


@pytest.fixture
def answered(project: Project, gateway: GatewayThread) -> Exchange:
    return Exchange.objects.create(
        project=project,
        public_id=uuid4(),
        agent="agent:claw",
        api="responses",
        model="base",
        messages=ASKED,
        text="In Berlin.",
        reasoning="It says so.",
        token_ids=pack_int32([1, 2]),
        logprobs=pack_float32([-0.5, -0.5]),
        prompt_token_ids=pack_int32([3]),
    )


def call(gateway: GatewayThread, verb: str, exchange: Exchange, token: str, rest: str = "") -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"}
    response = gateway.client.request(verb, f"/v1/responses/resp_{exchange.public_id.hex}{rest}", headers=headers)
    return response.status_code, response.json()


def test_what_was_asked_is_listed_as_items(answered: Exchange, gateway: GatewayThread, token: str) -> None:
    status, page = call(gateway, "GET", answered, token, "/input_items?order=asc")
    assert status == 200
    assert [item["type"] for item in page["data"]] == ["message", "function_call", "function_call_output"]
    assert page["data"][0]["content"] == [{"type": "input_text", "text": "Where is order 7?"}]
    assert (page["data"][1]["name"], page["data"][2]["output"]) == ("look_up", "in Berlin")
    assert (page["object"], page["has_more"], page["last_id"]) == ("list", False, page["data"][-1]["id"])
    newest = call(gateway, "GET", answered, token, "/input_items?limit=1")[1]
    assert (newest["data"][0]["type"], newest["has_more"]) == ("function_call_output", True)
    rest = call(gateway, "GET", answered, token, f"/input_items?after={newest['last_id']}")[1]
    assert [item["type"] for item in rest["data"]] == ["function_call", "message"]
    assert call(gateway, "GET", answered, token, "/input_items?after=nobody")[0] == 400


def test_a_deleted_answer_is_gone_for_its_agent_and_trains_nobody(
    answered: Exchange, gateway: GatewayThread, token: str, project: Project
) -> None:
    other = make_agent_token(project, "other")
    assert call(gateway, "DELETE", answered, other)[0] == 404
    assert answered.has_exact_tokens
    status, said = call(gateway, "DELETE", answered, token)
    assert (status, said["object"], said["deleted"]) == (200, "response", True)
    assert "nothing is trained on it from now on" in said["note"]
    for verb, rest in (("GET", ""), ("GET", "/input_items"), ("DELETE", "")):
        status, error = call(gateway, verb, answered, token, rest)
        assert (status, error["error"]["type"]) == (404, "invalid_request_error")
        assert error["error"]["message"] == f"Response with id 'resp_{answered.public_id.hex}' not found."
    answered.refresh_from_db()
    assert (answered.text, answered.has_exact_tokens) == ("In Berlin.", False)
    assert answered.token_fault == "its agent deleted the answer"
    entry = AuditEntry.objects.get(kind="sessions.answer_deleted")
    assert (entry.actor, entry.subject_id) == ("agent:claw", answered.pk)


def test_items_of_an_earlier_answer_are_found_by_their_ids(
    answered: Exchange, gateway: GatewayThread, token: str, upstream: StubUpstream
) -> None:
    Exchange.objects.filter(pk=answered.pk).update(tool_calls=[CALL])
    id = answered.public_id.hex
    named = [{"type": "item_reference", "id": name} for name in (f"rs_{id}", f"msg_{id}", f"fc_{id}_2")]
    items = [{"role": "user", "content": "Where?"}, *named, {"role": "user", "content": "And now?"}]
    headers = {"Authorization": f"Bearer {token}"}
    body = {"model": "helper", "input": items}
    assert gateway.client.post("/v1/responses", json=body, headers=headers).status_code == 200
    sent = upstream.requests[0]["body"]["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    field = KINDS["vllm"].reasoning_field
    assert (sent[1][field], sent[1]["content"], sent[1]["tool_calls"]) == ("It says so.", "In Berlin.", [CALL])
    unknown = {"model": "helper", "input": [{"type": "item_reference", "id": f"msg_{uuid4().hex}"}]}
    refused = gateway.client.post("/v1/responses", json=unknown, headers=headers)
    assert refused.status_code == 400
    assert "not found" in refused.json()["error"]["message"]
