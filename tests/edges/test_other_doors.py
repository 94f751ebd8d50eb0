"""Who may do what at every other door than REST and the console: gateway, live socket, MCP tools.

Exports are in test_taking_home.py, whose tests leave their rows standing for each other.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from uuid import NAMESPACE_DNS, UUID, uuid5

import httpx
import pytest
from asgiref.sync import SyncToAsync, async_to_sync, sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.routing import URLRouter
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db import connections, transaction
from django.test import Client
from mcp import Client as McpClient

from apps.accounts.models import Member, Project, Role, User
from apps.accounts.rights import Right
from apps.accounts.tokens import REFUSAL
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.console.exports.sources import SOURCES
from apps.console.routing import websocket_urlpatterns
from apps.gateway.server import list_routes
from apps.inference.models import Exchange, Session
from tentalis.asgi import application
from tentalis.client import AsyncClient
from tentalis.mcp.connection import speaking_plainly
from tentalis.mcp.server import make_server
from tests.apps.gateway.running import HELLO, GatewayThread, make_chat_worker, make_provider
from tests.apps.gateway.upstream import StubUpstream
from tests.edges.caller import Caller
from tests.edges.lived_in import EVERY_ROLE, make_lived_in
from tests.edges.routes import TABLE
from tests.edges.test_permissions import RAN, rights_said, token_of
from tests.factories import make_project, make_user

Said = Mapping[str, Any]


def find_differences(section: str, found: Sequence[str]) -> list[str]:
    """What is there and not in the table, or the other way round."""
    return sorted(set(found) ^ set(TABLE[section]))


def right_of(takes: str) -> str:
    return takes.partition(",")[0]


def list_columns() -> list[str]:
    return [f"{source.name}.{column}" for source in SOURCES.values() for column in source.columns]


def columns_said(name: str, role: str = "owner") -> set[str]:
    rights = rights_said(role)
    rights |= {"owner or manager"} if role in {"owner", "manager"} else set()
    return {
        column for right, columns in TABLE["exports"].get(name, {}).items() if right in rights for column in columns
    }


def find_unsaid_columns(found: Sequence[str]) -> list[str]:
    said = {f"{name}.{column}" for name in TABLE["exports"] for column in columns_said(name)}
    return sorted(set(found) ^ said)


def list_tools() -> list[str]:
    async def ask() -> list[str]:
        async with McpClient(make_server(connect_nowhere)) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    return async_to_sync(ask)()


def connect_nowhere(_: Any) -> AbstractAsyncContextManager[AsyncClient]:
    """Nothing is called."""
    raise NotImplementedError


def list_sockets() -> list[str]:
    return [str(entry.pattern) for entry in websocket_urlpatterns]


def test_every_other_door_is_classified() -> None:
    assert find_differences("gateway", list_routes()) == []
    assert find_differences("sockets", list_sockets()) == []
    assert find_differences("tools", list_tools()) == []
    assert find_unsaid_columns(list_columns()) == []
    said = [word for words in TABLE["heard"].values() for word in words]
    assert sorted(said) == sorted({kind.partition(".")[0] for kind in Kind.values})


def test_a_door_nobody_classified_is_found() -> None:
    assert find_differences("gateway", [*list_routes(), "GET /v1/backdoor"]) == ["GET /v1/backdoor"]
    assert find_differences("sockets", [*list_sockets(), "ws/backdoor/"]) == ["ws/backdoor/"]
    assert find_differences("tools", [*list_tools(), "open_backdoor"]) == ["open_backdoor"]
    assert find_unsaid_columns([*list_columns(), "tasks.backdoor"]) == ["tasks.backdoor"]


def make_others(project: Project) -> dict[str, User]:
    """Another agent of the project, and who owns another project."""
    Member.objects.create(project=project, user=make_user("second-agent", is_agent=True), role=Role.AGENT)
    Member.objects.create(project=make_project("elsewhere"), user=make_user("outsider"), role=Role.OWNER)
    return {name: User.objects.get(username=name) for name in ("second-agent", "outsider")}


def user_of(role: str) -> User:
    return User.objects.get(username=EVERY_ROLE[role])


# the gateway

BODIES: Said = {
    "POST /v1/chat/completions": HELLO,
    "POST /v1/completions": {"prompt": "hello"},
    "POST /v1/responses": {"input": "hello"},
    "POST /v1/messages": HELLO | {"max_tokens": 5},
    "POST /v1/messages/count_tokens": HELLO,
}


@pytest.fixture
def gateway(transactional_db: None) -> Iterator[GatewayThread]:
    """In front of a project in which everything stands; each role has a session of its own, whose key is its name."""
    project = make_project()
    make_lived_in(project)
    make_others(project)
    with StubUpstream() as upstream:
        make_chat_worker(project, make_provider(project, upstream.url, name="stub-box"))
        for role in [*EVERY_ROLE.values(), "second-agent"]:
            user = User.objects.get(username=role)
            Session.objects.create(project=project, key=role, agent=user.handle)
            Exchange.objects.create(
                project=project, agent=user.handle, api="responses", model="m", public_id=answer_of(role)
            )
        with GatewayThread() as running:
            yield running


def answer_of(role: str) -> UUID:
    """Public id of an answer that was given to it."""
    return uuid5(NAMESPACE_DNS, role)


def ask(gateway: GatewayThread, route: str, token: str, session: str, *, is_below: bool = False, slug: str = "") -> int:
    verb, path = route.split(" ")
    path = path.format(session=session, model="helper", response=f"resp_{answer_of(session).hex}")
    path = f"/sessions/{session}{path}" if is_below and path.startswith("/v1") else path
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers |= {"X-Tentalis-Project": slug} if slug else {}
    body = BODIES.get(route, {}) | {"model": "helper"} if verb == "POST" else None
    return gateway.client.request(verb, path, json=body, headers=headers).status_code


def expect(takes: str, may: bool, *, is_agent: bool, is_own: bool) -> set[int]:
    if takes == "public" or takes == "metrics reader":
        return {200}
    if not may:
        return {403}
    hides = takes.endswith(", its own") or (takes.endswith(", an agent its own") and is_agent)
    return {404} if hides and not is_own else {200, 204}


def test_the_gateway_lets_each_role_do_what_it_may_and_nothing_else(gateway: GatewayThread) -> None:
    wrong = []
    for name, role in [*((user, role) for role, user in EVERY_ROLE.items()), ("second-agent", "agent")]:
        token = token_of(User.objects.get(username=name))
        for route, takes in TABLE["gateway"].items():
            for session in {name, EVERY_ROLE["agent"]}:  # what was deleted once is not there twice
                found = ask(gateway, route, token, session, is_below=session == name)
                may = right_of(takes) in rights_said(role)
                if found not in expect(takes, may, is_agent=role == "agent", is_own=session == name):
                    wrong.append((name, route, takes, session, found))
    assert wrong == []


def test_the_gateway_tells_nobody_else_anything(gateway: GatewayThread) -> None:
    outsider = token_of(User.objects.get(username="outsider"))
    bound = token_of(user_of("owner"), project=_join(user_of("owner"), "elsewhere"))
    callers = {"": (401, 401), "tnt_wrong": (401, 401), outsider: (404, 403), bound: (404, 403)}
    wrong = []
    for token, (at_home, in_shop) in callers.items():
        for route, takes in TABLE["gateway"].items():
            if takes in {"public", "metrics reader"}:
                continue
            is_their_own = route in {"GET /v1/models", "POST /v1/traces"} and at_home == 404
            wanted = {at_home, 200} if is_their_own else {at_home}
            for slug, statuses in (("", wanted), ("shop", {in_shop})):
                if (found := ask(gateway, route, token, EVERY_ROLE["agent"], slug=slug)) not in statuses:
                    wrong.append((token[:8], route, slug, found))
    assert wrong == []
    listed = gateway.client.get("/v1/models", headers={"Authorization": f"Bearer {outsider}"}).json()
    assert listed["data"] == []
    assert gateway.client.get("/metrics", headers={"X-Forwarded-For": "192.0.2.1"}).status_code == 403


def test_a_token_asks_the_gateway_what_its_scopes_name_and_no_more(gateway: GatewayThread) -> None:
    owner = user_of("owner")
    wrong = []
    for right in {right_of(takes) for takes in TABLE["gateway"].values()} & set(Right.values):
        with_it = token_of(owner, [right])
        without = token_of(owner, [scope for scope in Right.values if scope != right])
        for route, takes in TABLE["gateway"].items():
            if right_of(takes) == right:
                found = [ask(gateway, route, token, owner.username) for token in (with_it, without)]
                if found[0] not in {200, 204} or found[1] != 403:
                    wrong.append((route, right, found))
    assert wrong == []


def _join(user: User, slug: str) -> Project:
    project = Project.objects.get(slug=slug)
    Member.objects.create(project=project, user=user, role=Role.OWNER)
    return project


# the live socket


class Ear:
    """A browser's end of the live socket."""

    def __init__(
        self,
        served: Any,
        user: User | AnonymousUser | None = None,
        headers: Sequence[Any] = (),
        subprotocols: Sequence[str] = (),
    ) -> None:
        scope: dict[str, Any] = {
            "type": "websocket",
            "path": "/ws/live/",
            "query_string": b"batched=1&after=0",
            "headers": list(headers),
            "subprotocols": list(subprotocols),
            "extensions": {"websocket.http.response": {}},
        }
        self.pipe: Any = ApplicationCommunicator(served, scope if user is None else scope | {"user": user})  # type: ignore[no-untyped-call]

    async def is_let_in(self) -> bool:
        return str((await self.knock())["type"]) == "websocket.accept"

    async def knock(self) -> dict[str, Any]:
        """What is answered to the handshake."""
        await self.pipe.send_input({"type": "websocket.connect"})
        return dict(await self.pipe.receive_output(120))

    async def hear_until(self, last: str) -> list[tuple[str, str | None]]:
        """(kind, project) of everything up to the project's last word, which everybody hears."""
        heard: list[tuple[str, str | None]] = []
        while (last, "own") not in heard:
            said = json.loads((await self.pipe.receive_output(60))["text"])
            heard += [(item["kind"], item["project"]) for item in said]
        return heard

    async def leave(self) -> None:
        await self.pipe.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.pipe.wait(120)


@pytest.fixture
def told(transactional_db: None) -> Iterator[dict[str, Any]]:
    """One announcement of each kind in `shop`, then one in a project of which all are members."""
    shop, own = make_project(), make_project("own")
    for role, name in EVERY_ROLE.items():
        user = make_user(name, is_agent=role == "agent")
        Member.objects.create(project=shop, user=user, role=role)
        Member.objects.create(project=own, user=user, role=Role.VIEWER)
    Member.objects.create(project=own, user=make_user("outsider"), role=Role.OWNER)
    for kind in sorted(Kind.values):
        record(kind, by="pipeline", project_id=shop.pk)
    record(Kind.TASK_DONE, by="pipeline", project_id=own.pk)
    yield {user.username: user for user in User.objects.all()}
    SyncToAsync.single_thread_executor.submit(connections.close_all).result(timeout=5)


async def test_each_role_hears_what_it_may_and_nothing_else(told: dict[str, Any]) -> None:
    right_by_word = {word: right for right, words in TABLE["heard"].items() for word in words}
    for name in [*EVERY_ROLE.values(), "outsider"]:
        rights = rights_said(name.partition("-")[0]) if name != "outsider" else set()
        ear = Ear(URLRouter(websocket_urlpatterns), told[name])
        assert await ear.is_let_in(), name
        heard = {kind for kind, project in await ear.hear_until(Kind.TASK_DONE.value) if project == "shop"}
        await ear.leave()
        kept = set() if name != EVERY_ROLE["agent"] else set(TABLE["kept_from_agents"]["first_words"])
        words = {kind: kind.partition(".")[0] for kind in Kind.values}
        assert heard == {kind for kind, word in words.items() if right_by_word[word] in rights and word not in kept}, (
            name
        )


def sign_in(user: User) -> str:
    """The cookie of a browser."""
    client = Client()
    client.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


HERE = [(b"host", b"127.0.0.1"), (b"origin", b"http://127.0.0.1")]
ELSEWHERE = [(b"host", b"127.0.0.1"), (b"origin", b"http://evil.example")]


async def test_a_browser_of_this_address_and_a_token_from_anywhere_open_the_socket(told: dict[str, Any]) -> None:
    token = await sync_to_async(token_of)(told[EVERY_ROLE["owner"]])
    cookie = (b"cookie", (await sync_to_async(sign_in)(told[EVERY_ROLE["viewer"]])).encode())
    bearer = (b"authorization", f"Bearer {token}".encode())
    for headers, is_let_in in (
        ([*HERE, (b"x-nothing", b"")], False),
        ([*HERE, cookie], True),
        ([*ELSEWHERE, cookie], False),
        ([*HERE, bearer], True),
        ([*ELSEWHERE, bearer], True),
        ([bearer], True),
        ([*HERE, cookie, (b"authorization", b"Basic eDp5")], True),  # for a proxy before us, not for us
    ):
        ear = Ear(application, headers=headers)
        assert await ear.is_let_in() is is_let_in, headers
        await ear.leave()


async def test_a_program_that_can_set_no_header_brings_its_token_as_a_subprotocol(told: dict[str, Any]) -> None:
    token = await sync_to_async(token_of)(told[EVERY_ROLE["owner"]])
    ear = Ear(application, headers=ELSEWHERE, subprotocols=["bearer", token])
    answered = await ear.knock()
    assert (answered["type"], answered["subprotocol"]) == ("websocket.accept", "bearer")
    assert ("task.done", "shop") in await ear.hear_until(Kind.TASK_DONE.value)
    await ear.leave()


@pytest.mark.parametrize("brought", ["header", "subprotocol", "nothing after bearer"])
async def test_a_token_that_does_not_hold_is_401_whatever_cookie_comes_with_it(
    told: dict[str, Any], brought: str
) -> None:
    cookie = (b"cookie", (await sync_to_async(sign_in)(told[EVERY_ROLE["viewer"]])).encode())
    header = [(b"authorization", b"Bearer tnt_x_y")] if brought == "header" else []
    offered = {"subprotocol": ["bearer", "tnt_x_y"], "nothing after bearer": ["bearer"]}.get(brought, [])
    ear = Ear(application, headers=[*HERE, cookie, *header], subprotocols=offered)
    begun = await ear.knock()
    assert (begun["type"], begun["status"]) == ("websocket.http.response.start", 401)
    said = json.loads((await ear.pipe.receive_output(120))["body"])
    assert (said["code"], said["detail"]) == ("not_signed_in", REFUSAL)


async def test_a_token_hears_what_its_scopes_name_of_its_project_and_no_more(told: dict[str, Any]) -> None:
    owner = told[EVERY_ROLE["owner"]]
    shop = await Project.objects.aget(slug="shop")
    right_by_word = {word: right for right, words in TABLE["heard"].items() for word in words}
    for right in sorted(set(right_by_word.values())):
        token = await sync_to_async(token_of)(owner, [right, Right.TASKS_READ])
        ear = Ear(application, headers=[(b"authorization", f"Bearer {token}".encode())])
        assert await ear.is_let_in()
        heard = {kind for kind, project in await ear.hear_until(Kind.TASK_DONE.value) if project == "shop"}
        await ear.leave()
        wanted = {kind for kind in Kind.values if right_by_word[kind.partition(".")[0]] in {right, "tasks:read"}}
        assert heard == wanted, right
    bound = await sync_to_async(token_of)(owner, [Right.TASKS_READ], shop)
    ear = Ear(application, headers=[(b"authorization", f"Bearer {bound}".encode())])
    assert await ear.is_let_in()
    last = await sync_to_async(record)(Kind.TASK_DONE, by="pipeline", project_id=shop.pk)
    projects, ids = set(), set()
    while last.pk not in ids:
        said = json.loads((await ear.pipe.receive_output(120))["text"])
        projects |= {item["project"] for item in said}
        ids |= {item["id"] for item in said}
    await ear.leave()
    assert projects == {"shop"}


# the MCP tools


class ThroughDjango(httpx.AsyncBaseTransport):
    """Hands a client's requests to the application in the test's own transaction, and notes what was answered."""

    def __init__(self, token: str) -> None:
        self.caller = Caller(token)
        self.statuses: list[int] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await sync_to_async(self.caller.send)(
            request.method, request.url.raw_path.decode(), request.content or None
        )
        self.statuses.append(answer.status)
        return httpx.Response(answer.status, content=answer.content, headers={"Content-Type": "application/json"})


def use_tools(token: str, arguments: Mapping[str, Said]) -> dict[str, tuple[bool, list[int], str]]:
    """Tool -> (it worked, what the platform answered on the way, its words); what they did is taken back."""
    through = ThroughDjango(token)

    @asynccontextmanager
    async def connect(_: Any) -> AsyncIterator[AsyncClient]:
        with speaking_plainly():
            async with AsyncClient("http://127.0.0.1", token, transport=through) as client:
                yield client

    async def call_all() -> dict[str, tuple[bool, list[int], str]]:
        answers = {}
        async with McpClient(make_server(connect)) as client:
            for name, given in arguments.items():
                through.statuses = []
                result: Any = await client.call_tool(name, dict(given))
                words = str(result.content[0].text) if result.content else ""
                answers[name] = (not result.is_error, through.statuses, words)
        return answers

    with transaction.atomic():
        answers = async_to_sync(call_all)()
        transaction.set_rollback(True)
    return answers


def make_arguments(ids: Said) -> dict[str, Said]:
    """What each tool is asked, so that it names something of the project."""
    task = {"task_id": ids["task"]}
    return {
        "whoami": {},
        "submit_task": {"prompt": "Hi.", "project": ids["slug"], "worker": "echo"},
        "check_task": task,
        "list_tasks": {"project": ids["slug"]},
        "cancel_task": task,
        "submit_result": task | {"answer": "hi"},
        "give_feedback": task | {"score": 0.5},
        "list_sessions": {"project": ids["slug"]},
        "read_session": {"session_id": ids["session"]},
        "propose_action": task | {"kind": "tool", "tool": "refund"},
        "check_proposal": {"proposal_id": ids["proposal"], "wait_s": 0},
        "list_reviews": {"project": ids["slug"]},
        "claim_review": {"review_id": ids["review"]},
        "release_review": {"review_id": ids["review"]},
        "submit_review": {"review_id": ids["review"], "score": 0.5},
        "skip_review": {"review_id": ids["review"], "reason": "I cannot tell.", "then": "later"},
        "list_workers": {"project": ids["slug"]},
        "read_steps": {"attempt_id": ids["attempt"]},
        "list_adapters": {"project": ids["slug"]},
        "list_runs": {"project": ids["slug"]},
        "list_skills": {"project": ids["slug"]},
    }


def test_the_tools_let_each_role_do_what_it_may_and_nobody_else_anything(project: Project) -> None:
    ids = make_lived_in(project)
    others = make_others(project)
    users = {**{role: user_of(role) for role in EVERY_ROLE}, **others}
    tokens = {name: token_of(user) for name, user in users.items()} | {"nobody": ""}
    wrong = []
    for name, token in tokens.items():
        rights = rights_said(role) if (role := "agent" if name == "second-agent" else name) in EVERY_ROLE else set()
        for tool, (worked, statuses, words) in use_tools(token, make_arguments(ids)).items():
            takes = TABLE["tools"][tool]
            is_blind = name == "outsider" or (name == "second-agent" and takes.endswith(", an agent its own"))
            if name == "nobody":
                is_right = not worked and statuses == [401]
            elif takes == "signed in":
                is_right = worked
            elif is_blind:
                is_right = statuses == [404] or (worked and words in EMPTY)
            elif right_of(takes) in rights:
                is_right = bool(statuses) and set(statuses) <= RAN
            else:
                is_right = not worked and set(statuses) == {403}
            if not is_right:
                wrong.append((name, tool, takes, statuses, words[:200]))
    assert wrong == []


EMPTY = {json.dumps({key: []}, indent=2) for key in ("tasks", "sessions", "reviews")}
