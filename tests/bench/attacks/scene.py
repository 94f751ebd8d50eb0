"""Two tenants of one box: one who attacks, one who only works and is to notice nothing."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tentalis.platform.up import RunningStack
from tests.bench.attacks.findings import FINDINGS
from tests.bench.attacks.model_servers import KINDS
from tests.edges.raw_connection import ATTACKER

CANARY = "canary-of-the-neighbour-7f3a9c"
MIB = 2**20
WORK = ("relay", "queue-workers", "queue-control")
"""Services without which no task is done."""


class Found(NamedTuple):
    """What an attack met.

    Args:
        words: in short. held: whether it fell short; None: it could not be made here.
    """

    words: str
    held: bool | None


Run = Callable[["Scene"], Found]


@dataclass(frozen=True)
class Attack:
    """One row of the table.

    Args:
        name: in plain words. wanted: what a box that holds does. part: of the bench. finding: of `FINDINGS`; "": none.
        limit: of the table that holds it; "": something else. needs: services beside the web and the gateway.
        is_fault: the machine's, not somebody's: a neighbour may be told 503 and to wait.
        kills: services that it ends itself.
    """

    name: str
    wanted: str
    run: Run
    part: str
    finding: str
    limit: str
    needs: tuple[str, ...]
    is_fault: bool
    kills: tuple[str, ...]


ATTACKS: list[Attack] = []


def attack(
    name: str,
    *,
    wanted: str,
    finding: str = "",
    limit: str = "",
    needs: tuple[str, ...] = (),
    is_fault: bool = False,
    kills: tuple[str, ...] = (),
) -> Callable[[Run], Run]:
    """Put a function into the table."""
    if finding and finding not in FINDINGS:
        raise ValueError(f"no such finding: {finding}")

    def keep(run: Run) -> Run:
        part = run.__module__.rpartition(".")[2]
        ATTACKS.append(Attack(name, wanted, run, part, finding, limit, needs, is_fault, kills))
        return run

    return keep


class Tap(httpx.BaseTransport):
    """Counts what comes back that belongs to the neighbour. From the attacker's address."""

    def __init__(self) -> None:
        self._inner = httpx.HTTPTransport(local_address=ATTACKER)
        self.foreign_bytes = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._inner.handle_request(request)
        body = response.read()
        if CANARY.encode() in body:
            self.foreign_bytes += len(body)
        headers = [(name, value) for name, value in response.headers.multi_items() if name != "transfer-encoding"]
        return httpx.Response(response.status_code, headers=headers, content=body, request=request)


@dataclass
class Scene:
    """What every attack has at hand. Built inside Django.

    Args:
        token: of the attacker's agent; manager: of its owner, every scope; other_agent: of a second one of its project;
            viewer: of somebody who only looks; budgeted: of an agent with three tokens a day.
        person, agent: of the neighbour. untapped: for what that tenant asks itself.
        made: rows by name.
    """

    stack: RunningStack
    models: str
    tap: Tap = field(default_factory=Tap)
    token: str = ""
    other_agent: str = ""
    manager: str = ""
    viewer: str = ""
    budgeted: str = ""
    person: str = ""
    agent: str = ""
    made: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        addresses = self.stack.state().addresses
        self.web = httpx.Client(base_url=addresses["console_url"], timeout=90, transport=self.tap)
        self.gateway = httpx.Client(base_url=addresses["gateway_url"], timeout=90, transport=self.tap)
        self.untapped = httpx.Client(base_url=addresses["console_url"], timeout=90)
        self.web_port, self.gateway_port = int(self.web.base_url.port or 80), int(self.gateway.base_url.port or 80)

    @property
    def ports(self) -> list[int]:
        return [self.web_port, self.gateway_port]

    def call(self, method: str, path: str, *, token: str = "", **given: Any) -> httpx.Response:
        """REST, as the attacker's owner unless another token is given."""
        headers = {"Authorization": f"Bearer {token or self.manager}", **given.pop("headers", {})}
        return self.web.request(method, f"/api/v1/{path}", headers=headers, **given)

    def call_neighbour(self, method: str, path: str, **given: Any) -> httpx.Response:
        """REST, as the neighbour's owner."""
        headers = {"Authorization": f"Bearer {self.person}", **given.pop("headers", {})}
        return self.untapped.request(method, f"/api/v1/{path}", headers=headers, **given)

    def chat(
        self, model: str, *, token: str = "", session: str = "", headers: Mapping[str, str] | None = None, **body: Any
    ) -> httpx.Response:
        given = {"Authorization": f"Bearer {token or self.token}", **(headers or {})}
        if session:
            given["X-Session-Id"] = session
        asked = {"model": model, "messages": [{"role": "user", "content": "hello"}], **body}
        return self.gateway.post("/v1/chat/completions", json=asked, headers=given)

    def cookie_of(self, username: str) -> str:
        """Of a browser in which somebody of the attacker's is signed in."""
        from django.conf import settings
        from django.test import Client

        from apps.accounts.models import User

        client = Client()
        client.force_login(User.objects.get(username=username))
        return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"

    def restarts(self) -> dict[str, int]:
        return {row.name: row.restarts for row in self.stack.state().services}

    def pids(self, service: str) -> list[int]:
        """A service's process and those it began, of all services whose names begin so."""
        found = []
        for row in self.stack.state().services:
            if row.name.startswith(service) and row.pid:
                children = Path(f"/proc/{row.pid}/task/{row.pid}/children").read_text().split()
                found += [row.pid, *(int(word) for word in children)]
        return found

    def peak_mb(self, service: str) -> int:
        """The most memory one of its processes ever had."""
        most = 0
        for pid in self.pids(service):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            most = max(most, *(int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
        return most // 1024

    def cpu_s(self, service: str) -> float:
        """What all of its processes have used."""
        parts = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self.pids(service)]
        return sum(int(part[11]) + int(part[12]) for part in parts) / 100


def wait_for(find: Callable[[], Any], *, most_s: float = 30) -> Any:
    """What it finds, or what it found last."""
    until = time.monotonic() + most_s
    while not (found := find()) and time.monotonic() < until:
        time.sleep(0.2)
    return found


def make_scene(stack: RunningStack, models: str) -> Scene:
    """The two tenants. Inside Django."""
    from apps.accounts.models import Member, Role
    from apps.accounts.rights import Right
    from apps.accounts.services import let_make_projects
    from apps.accounts.tokens import create_token
    from apps.workers.models import Worker
    from tests.apps.gateway.running import make_agent, make_agent_token, make_provider
    from tests.factories import make_project, make_task, make_user, make_worker

    scene, every = Scene(stack, models), list(Right)
    project = make_project("attacker")
    owner, viewer = make_user("mallory"), make_user("victor")
    Member.objects.create(project=project, user=owner, role=Role.OWNER)
    Member.objects.create(project=project, user=viewer, role=Role.VIEWER)
    let_make_projects(user=viewer, may=True, by="command")
    for kind in KINDS:
        provider = make_provider(project, f"{models}/{kind}/v1", name=kind, kind="custom")
        Worker.objects.create(
            project=project, name=f"{kind}-helper", kind=Worker.Kind.CHAT, provider=provider, base_model="base"
        )
        scene.made[kind] = provider.pk
    make_worker(project)
    claw = make_agent(project, "claw")
    scene.token = create_token(user=claw, name="all", scopes=every, by=claw, project=project)[1]
    scene.other_agent = make_agent_token(project, "other-claw")
    scene.budgeted = make_agent_token(project, "budgeted", tokens_per_day=3)
    scene.manager = create_token(user=owner, name="all", scopes=every, by=owner)[1]
    scene.viewer = create_token(user=viewer, name="all", scopes=every, by=viewer)[1]
    scene.made |= {"task": make_task(project).pk, "project": project.pk, "claw": claw.handle}

    theirs = make_project("neighbour")
    provider = make_provider(theirs, f"{models}/plain/v1", kind="custom")
    Worker.objects.create(project=theirs, name="helper", kind=Worker.Kind.CHAT, provider=provider, base_model="base")
    make_task(theirs, make_worker(theirs), prompt=CANARY)
    scene.agent = make_agent_token(theirs, "neighbour-claw")
    person = make_user("nina")
    Member.objects.create(project=theirs, user=person, role=Role.OWNER)
    scene.person = create_token(user=person, name="all", scopes=every, by=person)[1]
    return scene


def as_task(text: str) -> bytes:
    """A body that submits a task of the attacker's, with this JSON in its metadata."""
    task = b'{"project":"attacker","environment":"chat","worker":"echo","prompt":"x","metadata":{"a":'
    return task + text.encode() + b"}}"
