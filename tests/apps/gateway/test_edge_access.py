"""Whom the gateway lets in, for how long, and how much of it."""

import gzip
import json
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from django.utils import timezone

from apps.accounts.models import ApiToken, Member, Project, Role
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token, revoke_token
from apps.gateway.limits import Budgets
from apps.inference.models import Price
from apps.workers.models import Worker
from tentalis.env import read_origins
from tentalis.limits import LIMITS
from tests.apps.gateway.running import HELLO, GatewayThread, make_agent, make_agent_token
from tests.apps.gateway.test_edge import wait_for
from tests.apps.gateway.upstream import StubUpstream
from tests.factories import make_user

PATHS = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"]


def find_token(text: str) -> ApiToken:
    return ApiToken.objects.get(key_id=text.split("_")[1])


NO_TOKENS: list[dict[bytes, bytes]] = [
    {},
    {b"Authorization": b"Basic YTpi"},
    {b"Authorization": b"Bearer"},
    {b"Authorization": b"Bearer sk-somebody"},
    {b"Authorization": b"Bearer tnt_%s_%s" % (b"a" * 12, b"b" * 43)},
    {b"x-api-key": b"tnt_short"},
    {b"Authorization": b"Bearer \xc3\xa4\xff"},
]


@pytest.mark.parametrize("path", PATHS)
def test_nobody_gets_in_without_a_token(gateway: GatewayThread, path: str) -> None:
    for headers in NO_TOKENS:
        response = gateway.client.post(path, json=HELLO | {"model": "helper"}, headers=headers)
        assert response.status_code == 401, headers
        assert response.headers["WWW-Authenticate"].startswith("Bearer")
        body = response.json()
        assert body["error"]["type"] == "authentication_error"
        assert body.get("type") == ("error" if path == "/v1/messages" else None)
    assert gateway.records == []


def test_nothing_is_read_without_a_token(gateway: GatewayThread) -> None:
    for path in ("/v1/models", "/v1/models/helper", "/sessions/x/traces"):
        assert gateway.client.get(path).status_code == 401


def test_both_libraries_ways_to_send_a_key_work(gateway: GatewayThread, token: str) -> None:
    body = HELLO | {"model": "helper", "max_tokens": 5}
    for headers in ({"Authorization": f"Bearer {token}"}, {"x-api-key": token}, {"api-key": token}):
        assert gateway.client.post("/v1/messages", json=body, headers=headers).status_code == 200


def test_every_answer_has_a_requests_id_the_callers_own_where_it_gave_one(gateway: GatewayThread, token: str) -> None:
    ours = gateway.chat("helper", token=token)
    assert ours.headers["X-Request-Id"] == ours.headers["X-Tentalis-Exchange"]
    given = {"X-Request-Id": "mine-7"}
    assert gateway.chat("helper", token=token, headers=given).headers["X-Request-Id"] == "mine-7"
    assert gateway.chat("helper", token=token, headers=given, stream=True).headers["X-Request-Id"] == "mine-7"
    assert len(gateway.chat("helper", token=token, headers={"X-Request-Id": "x" * 300}).headers["X-Request-Id"]) == 32
    message = gateway.client.post("/v1/messages", json={}, headers={"x-api-key": token} | given)
    assert (message.status_code, message.headers["request-id"]) == (400, "mine-7")
    assert gateway.chat("helper", token="tnt_nobody", headers=given).headers["X-Request-Id"] == "mine-7"
    assert gateway.client.get("/nowhere").headers["X-Request-Id"]
    assert gateway.client.get("/health", headers=given).headers["X-Request-Id"] == "mine-7"


def test_paths_without_v1_are_the_same_doors(gateway: GatewayThread, token: str) -> None:
    headers = {"x-api-key": token}
    for path, body in (
        ("/chat/completions", HELLO),
        ("/responses", {"input": "hi"}),
        ("/completions", {"prompt": "hi"}),
    ):
        assert gateway.client.post(path, json=body | {"model": "helper"}, headers=headers).status_code == 200
    assert (
        gateway.client.get("/models", headers=headers).json()
        == gateway.client.get("/v1/models", headers=headers).json()
    )
    assert gateway.client.get("/models/helper", headers=headers).json()["id"] == "helper"


def test_a_browsers_page_may_ask_only_where_its_origin_is_named(gateway: GatewayThread, token: str) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,x-stainless-os"}

    def preflight(origin: str) -> httpx.Response:
        return gateway.client.options("/v1/chat/completions", headers={"Origin": origin} | asked)

    assert "Access-Control-Allow-Origin" not in preflight("https://app.test").headers
    gateway.edge.origins = frozenset({"https://app.test"})
    allowed = preflight("https://app.test")
    assert (allowed.status_code, allowed.headers["Access-Control-Allow-Origin"]) == (204, "https://app.test")
    assert allowed.headers["Access-Control-Allow-Headers"] == asked["Access-Control-Request-Headers"]
    assert "Access-Control-Allow-Origin" not in preflight("https://evil.test").headers
    for is_stream in (False, True):
        answer = gateway.chat("helper", token=token, headers={"Origin": "https://app.test"}, stream=is_stream)
        assert answer.headers["Access-Control-Allow-Origin"] == "https://app.test"
        assert "X-Tentalis-Exchange" in answer.headers["Access-Control-Expose-Headers"]
    gateway.edge.origins = frozenset({"*"})
    refused = gateway.chat("helper", token="tnt_nobody", headers={"Origin": "https://any.test"})
    assert (refused.status_code, refused.headers["Access-Control-Allow-Origin"]) == (401, "*")


def test_who_waits_to_be_told_to_go_on_is_told(gateway: GatewayThread, token: str) -> None:
    body = json.dumps(HELLO | {"model": "helper"}).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=10) as connection:
        connection.sendall(head.encode())
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200 OK")
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=10) as connection:
        connection.sendall(head.replace(token, "tnt_nobody").encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 401")


def test_a_revoked_token_is_worthless_within_a_second(gateway: GatewayThread, token: str) -> None:
    assert gateway.chat("helper", token=token).status_code == 200
    row = find_token(token)
    revoke_token(token=row, by=row.user)
    revoked_at = time.monotonic()
    wait_for(lambda: gateway.chat("helper", token=token).status_code == 401)
    assert time.monotonic() - revoked_at < 1.0


@pytest.mark.parametrize("what", ["expiry", "scope", "user", "member"])
def test_a_token_that_does_not_hold_any_more_is_noticed_without_being_told(
    gateway: GatewayThread, token: str, what: str
) -> None:
    assert gateway.chat("helper", token=token).status_code == 200
    row = find_token(token)
    if what == "expiry":
        ApiToken.objects.filter(pk=row.pk).update(expires_at=timezone.now())
    elif what == "scope":
        ApiToken.objects.filter(pk=row.pk).update(scopes=[Right.TASKS_READ])
    elif what == "user":
        type(row.user).objects.filter(pk=row.user_id).update(is_active=False)
    else:
        Member.objects.filter(user=row.user).delete()
    wanted = 403 if what in {"scope", "member"} else 401
    wait_for(lambda: gateway.chat("helper", token=token).status_code == wanted)


def test_a_token_needs_the_scope_and_its_user_the_right(gateway: GatewayThread, project: Project) -> None:
    agent = make_agent(project)
    viewer = make_user("vera")
    Member.objects.create(project=project, user=viewer, role=Role.VIEWER)
    for user, scopes in ((agent, [Right.TASKS_READ]), (viewer, [Right.GATEWAY_USE])):
        _, text = create_token(user=user, name="t", scopes=scopes, by=user, project=project)
        response = gateway.chat("helper", token=text)
        assert (response.status_code, response.json()["error"]["type"]) == (403, "permission_error")
    assert {record.header["status"] for record in gateway.records} == {403}


def test_a_token_of_several_projects_says_which(gateway: GatewayThread, project: Project) -> None:
    other = Project.objects.create(slug="other", name="Other")
    agent = make_agent(project)
    make_agent(other)
    _, text = create_token(user=agent, name="t", scopes=[Right.GATEWAY_USE], by=agent)
    assert gateway.chat("helper", token=text).json()["error"]["code"] == "no_project"
    assert gateway.chat("helper", token=text, headers={"X-Tentalis-Project": "shop"}).status_code == 200
    assert gateway.chat("helper", token=text, headers={"X-Tentalis-Project": "other"}).status_code == 404
    assert gateway.chat("helper", token=text, headers={"X-Tentalis-Project": "secret"}).status_code == 403


def test_an_archived_project_is_answered_no_call_until_it_is_taken_up_again(
    gateway: GatewayThread, project: Project, token: str
) -> None:
    other = Project.objects.create(slug="other", name="Other")
    agent = make_agent(project)
    make_agent(other)
    _, both = create_token(user=agent, name="t", scopes=[Right.GATEWAY_USE], by=agent)
    assert gateway.chat("helper", token=token).status_code == 200
    assert gateway.chat("helper", token=both).json()["error"]["code"] == "no_project"
    Project.objects.filter(pk=project.pk).update(archived_at=timezone.now())
    wait_for(lambda: gateway.chat("helper", token=token).status_code == 403)
    refused = gateway.chat("helper", token=token).json()["error"]
    assert (refused["code"], "shop is archived" in refused["message"]) == ("project_archived", True)
    # it opens one project now, which has no such worker
    wait_for(lambda: gateway.chat("helper", token=both).status_code == 404)
    Project.objects.filter(pk=project.pk).update(archived_at=None)
    wait_for(lambda: gateway.chat("helper", token=token).status_code == 200)


def test_a_worker_that_is_switched_off_is_gone_soon(gateway: GatewayThread, token: str, helper: Worker) -> None:
    assert gateway.chat("helper", token=token).status_code == 200
    Worker.objects.filter(pk=helper.pk).update(is_active=False)
    wait_for(lambda: gateway.chat("helper", token=token).status_code == 404)


@pytest.mark.parametrize(
    ("limits", "allowed", "code"),
    [
        ({"requests_per_minute": 3}, 3, "rate_limit_exceeded"),
        ({"tokens_per_minute": 20}, 2, "rate_limit_exceeded"),
        ({"tokens_per_day": 20}, 2, "insufficient_quota"),
        ({"usd_per_day": 0.00002}, 2, "insufficient_quota"),
    ],
    ids=str,
)
def test_a_tokens_budget_ends_in_429_and_others_go_on(
    gateway: GatewayThread, project: Project, token: str, limits: dict[str, Any], allowed: int, code: str
) -> None:
    Price.objects.create(kind="vllm", model="base", input=1, output=1, valid_from=timezone.now())
    limited = make_agent_token(project, "limited", **limits)
    wait_for(lambda: gateway.edge.config.tables.prices.exact)
    while time.time() % 60 > 55:
        time.sleep(0.1)  # a minute that ends in between would begin a new budget
    answers = [gateway.chat("helper", token=limited) for _ in range(allowed + 2)]
    assert [answer.status_code for answer in answers] == [200] * allowed + [429] * 2
    assert answers[-1].json()["error"]["code"] == code
    assert int(answers[-1].headers["Retry-After"]) > 0
    statuses = [record.header["status"] for record in gateway.records]
    assert statuses == [200] * allowed + [429]  # the second refusal is only counted
    assert gateway.chat("helper", token=token).status_code == 200


def test_a_body_that_is_long_in_coming_is_counted_when_it_has_come(
    gateway: GatewayThread, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = make_agent_token(project, "limited", requests_per_minute=5)
    admit, asked_at = gateway.edge.budgets.admit, list[float]()

    def note(caller: Any, backend: Any, now: float, **more: Any) -> Any:
        asked_at.append(now)
        return admit(caller, backend, now, **more)

    monkeypatch.setattr(gateway.edge.budgets, "admit", note)

    def drip() -> Iterator[bytes]:
        yield b'{"model": "helper", '
        time.sleep(0.4)
        yield b'"messages": [{"role": "user", "content": "hi"}]}'

    headers = {"Authorization": f"Bearer {limited}", "Content-Type": "application/json"}
    answer = gateway.client.post("/v1/chat/completions", content=drip(), headers=headers)
    assert answer.status_code == 200
    assert asked_at[0] - gateway.records[0].header["at"] > 0.3


def test_another_sampling_policy_is_heard_of(gateway: GatewayThread, project: Project, token: str) -> None:
    assert gateway.chat("helper", token=token, temperature=0.2).status_code == 200
    Project.objects.filter(pk=project.pk).update(session_policy={"sampling": "refuse"})
    wait_for(lambda: gateway.chat("helper", token=token, temperature=0.2).status_code == 400)


def test_a_nul_in_a_path_is_refused(gateway: GatewayThread, token: str) -> None:
    for path in ("/sessions/%00/traces", "/v1/models/a%00b", "/v1/responses/%00"):
        assert gateway.client.get(path, headers={"Authorization": f"Bearer {token}"}).status_code == 400


def test_streams_are_charged_too(gateway: GatewayThread, project: Project) -> None:
    limited = make_agent_token(project, "limited", tokens_per_day=10)
    assert gateway.stream("helper", token=limited).is_done
    assert gateway.chat("helper", token=limited).status_code == 429


def test_who_leaves_in_the_middle_of_a_stream_has_used_its_tokens(
    gateway: GatewayThread, project: Project, upstream: StubUpstream
) -> None:
    limited = make_agent_token(project, "limited", tokens_per_day=10)
    upstream.plan(truncate_after=9)  # before the server says what was used
    assert not gateway.stream("helper", token=limited).is_done
    upstream.reset()
    assert gateway.chat("helper", token=limited).status_code == 429


def test_two_tokens_of_one_agent_have_a_budget_each(gateway: GatewayThread, project: Project, token: str) -> None:
    limited = make_agent_token(project, tokens_per_day=10)
    assert find_token(limited).user == find_token(token).user
    assert [gateway.chat("helper", token=limited).status_code for _ in range(2)] == [200, 429]
    assert gateway.chat("helper", token=token).status_code == 200


def test_a_project_has_one_budget_for_all_its_agents(
    project: Project, helper: Worker, upstream: StubUpstream, token: str
) -> None:
    Project.objects.filter(pk=project.pk).update(limits={"tokens_per_day": 20})
    with GatewayThread(make_budgets=Budgets) as gateway:
        other = make_agent_token(project, "other")
        statuses = [gateway.chat("helper", token=each).status_code for each in (token, other, token, other)]
    assert statuses == [200, 200, 429, 429]


def test_unreadable_limits_are_no_limits_and_no_crash(gateway: GatewayThread, project: Project) -> None:
    odd = make_agent_token(project, "odd", requests_per_fortnight=1)
    assert gateway.chat("helper", token=odd).status_code == 200


def test_origins_are_read_as_browsers_send_them() -> None:
    assert read_origins("https://app.test, http://localhost:3000,*") == [
        "https://app.test",
        "http://localhost:3000",
        "*",
    ]
    for text in ("app.test", "https://app.test/", "https://app.test/path"):
        with pytest.raises(ValueError, match="origins like"):
            read_origins(text)


BOMB = zlib.compress(b'{"model": "helper", "pad": "%b"}' % bytes(LIMITS.gateway_body_bytes).replace(b"\0", b"x"))


@pytest.mark.parametrize(
    ("packing", "pack", "status"),
    [
        ("gzip", gzip.compress, 200),
        ("deflate", zlib.compress, 200),
        ("identity", bytes, 200),
        ("br", bytes, 415),
        ("gzip", bytes, 400),
        ("gzip", lambda body: gzip.compress(body)[:-9], 400),
        ("deflate", lambda body: BOMB, 413),
    ],
)
def test_a_packed_body_is_unpacked_as_far_as_a_body_may_be_long(
    gateway: GatewayThread, token: str, packing: str, pack: Callable[[bytes], bytes], status: int
) -> None:
    body = pack(json.dumps(HELLO | {"model": "helper"}).encode())
    headers = {"Authorization": f"Bearer {token}", "Content-Encoding": packing}
    answer = gateway.client.post("/v1/chat/completions", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert not gateway.edge.held_bytes
    assert not gateway.edge.begun
