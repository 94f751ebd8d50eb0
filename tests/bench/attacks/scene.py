"""Two tenants of one box: one who attacks, one who only works and is to notice nothing."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tentalis.platform.up import RunningStack
from tests.local_server import LocalServer

CANARY = "canary-of-the-neighbour-7f3a9c"
SLOW_S = 1.0
EVERY_S = 0.5


class Found(NamedTuple):
    """What an attack met.

    Args:
        words: in short. held: whether it fell short.
    """

    words: str
    held: bool


@dataclass(frozen=True)
class Attack:
    """One row of the table.

    Args:
        name: in plain words. wanted: what a box that holds does. limit: of the table that holds it; "": something else.
        needs_all: it needs more of the box than web and gateway.
    """

    name: str
    wanted: str
    run: Callable[["Scene"], Found]
    limit: str
    needs_all: bool


ATTACKS: list[Attack] = []


def attack(
    name: str, *, wanted: str, limit: str = "", needs_all: bool = False
) -> Callable[[Callable[["Scene"], Found]], Callable[["Scene"], Found]]:
    """Put a function into the table."""

    def keep(run: Callable[["Scene"], Found]) -> Callable[["Scene"], Found]:
        ATTACKS.append(Attack(name, wanted, run, limit, needs_all))
        return run

    return keep


class Tap(httpx.BaseTransport):
    """Counts what comes back that belongs to the neighbour."""

    def __init__(self) -> None:
        self._inner = httpx.HTTPTransport()
        self.foreign_bytes = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._inner.handle_request(request)
        body = response.read()
        if CANARY.encode() in body:
            self.foreign_bytes += len(body)
        return httpx.Response(response.status_code, headers=_plain(response.headers), content=body, request=request)


def _plain(headers: httpx.Headers) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers.multi_items() if name not in {"transfer-encoding"}]


class ModelServer(BaseHTTPRequestHandler):
    """A tenant's own model server; the path's first part says how it misbehaves."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        kind = self.path.split("/")[1]
        if kind == "silent":
            time.sleep(60)
            return
        if kind == "hook":
            self._send(503, b"", {"Retry-After": "Fri, 31 Dec 9999 23:59:59 -0500"})
            return
        answer = {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "base\r\nX-Evil: 1" if kind == "named" else asked.get("model", "base"),
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
        raw = json.dumps(answer).encode()
        if kind == "slow":
            time.sleep(0.5)
        if kind == "squeezed":
            import gzip

            self._send(200, gzip.compress(raw + b" " * 200_000_000, 1), {"Content-Encoding": "gzip"})
            return
        if kind == "large":
            self._send(200, raw, {}, blanks=150_000_000)
            return
        self._send(200, raw, {})

    def do_GET(self) -> None:
        self._send(200, b'{"object":"list","data":[{"id":"base","object":"model"}]}', {})

    def _send(self, status: int, body: bytes, headers: dict[str, str], *, blanks: int = 0) -> None:
        try:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body) + blanks))
            self.end_headers()
            self.wfile.write(body)
            for _ in range(blanks // 1_000_000):
                self.wfile.write(b" " * 1_000_000)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        pass


@dataclass
class Scene:
    """What every attack has at hand. Built inside Django.

    Args:
        token: of the attacker's agent; manager: of its owner, every scope; other_agent: of a second one of its project.
        neighbour: of the other tenant's agent. untapped: for what that tenant asks itself.
    """

    stack: RunningStack
    web: httpx.Client
    gateway: httpx.Client
    untapped: httpx.Client
    tap: Tap
    models: str
    token: str = ""
    other_agent: str = ""
    manager: str = ""
    viewer: str = ""
    neighbour: str = ""
    slow_token: str = ""
    web_port: int = 0
    gateway_port: int = 0
    made: dict[str, Any] = field(default_factory=dict)

    def call(self, method: str, path: str, *, token: str = "", **given: Any) -> httpx.Response:
        """REST, as the attacker's owner unless another token is given."""
        headers = {"Authorization": f"Bearer {token or self.manager}", **given.pop("headers", {})}
        return self.web.request(method, f"/api/v1/{path}", headers=headers, **given)

    def chat(self, model: str, *, token: str = "", session: str = "", **body: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token or self.token}"}
        if session:
            headers["X-Session-Id"] = session
        asked = {"model": model, "messages": [{"role": "user", "content": "hello"}], **body}
        return self.gateway.post("/v1/chat/completions", json=asked, headers=headers)

    def pids(self) -> dict[str, tuple[int | None, int]]:
        return {row.name: (row.pid, row.restarts) for row in self.stack.state().services}

    def peak_bytes(self, service: str) -> int:
        """The most memory a process of it ever had."""
        status = Path(f"/proc/{self.stack.pid_of(service)}/status").read_text()
        return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def make_scene(stack: RunningStack, models: str) -> Scene:
    """The two tenants. Inside Django."""
    from apps.accounts.models import Member, Role
    from apps.accounts.rights import Right
    from apps.accounts.services import create_token
    from apps.workers.models import Worker
    from tests.apps.gateway.running import make_agent, make_agent_token, make_provider
    from tests.factories import make_project, make_task, make_user, make_worker

    addresses, tap = stack.state().addresses, Tap()
    web = httpx.Client(base_url=addresses["console_url"], timeout=90, transport=tap)
    gateway = httpx.Client(base_url=addresses["gateway_url"], timeout=90, transport=tap)
    untapped = httpx.Client(base_url=addresses["console_url"], timeout=90)
    scene = Scene(stack, web, gateway, untapped, tap, models)
    scene.web_port, scene.gateway_port = int(web.base_url.port or 80), int(gateway.base_url.port or 80)

    project = make_project("attacker")
    owner, viewer = make_user("mallory"), make_user("victor")
    Member.objects.create(project=project, user=owner, role=Role.OWNER)
    Member.objects.create(project=project, user=viewer, role=Role.VIEWER)
    for kind in ("plain", "named", "squeezed", "large", "silent", "slow"):
        provider = make_provider(project, f"{models}/{kind}/v1", name=kind, kind="custom")
        Worker.objects.create(
            project=project, name=f"{kind}-helper", kind=Worker.Kind.CHAT, provider=provider, base_model="base"
        )
    make_worker(project)
    claw = make_agent(project, "claw")
    scene.token = create_token(user=claw, name="all", scopes=list(Right), by=claw, project=project)[1]
    scene.other_agent = make_agent_token(project, "other-claw")
    scene.slow_token = make_agent_token(project, "budgeted", tokens_per_day=3)
    scene.manager = create_token(user=owner, name="all", scopes=list(Right), by=owner)[1]
    scene.viewer = create_token(user=viewer, name="all", scopes=list(Right), by=viewer)[1]
    scene.made["task"] = make_task(project).pk
    scene.made["owner"] = owner.username

    theirs = make_project("neighbour")
    provider = make_provider(theirs, f"{models}/plain/v1", kind="custom")
    Worker.objects.create(project=theirs, name="helper", kind=Worker.Kind.CHAT, provider=provider, base_model="base")
    echo = make_worker(theirs)
    make_task(theirs, echo, prompt=CANARY)
    agent = make_agent_token(theirs, "neighbour-claw")
    scene.neighbour = agent
    person = make_user("nina")
    Member.objects.create(project=theirs, user=person, role=Role.OWNER)
    scene.made["neighbour_owner"] = create_token(user=person, name="all", scopes=list(Right), by=person)[1]
    return scene


class Neighbour:
    """Asks the web and the gateway twice a second, from before the first attack to after the last."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._over = threading.Event()
        self._web = httpx.Client(base_url=scene.web.base_url, timeout=60)
        self._gateway = httpx.Client(base_url=scene.gateway.base_url, timeout=60)
        self._threads = [
            threading.Thread(target=self._ask, args=(ask,), daemon=True) for ask in (self._list, self._chat)
        ]
        self.took_s: list[float] = []
        self.slow: list[str] = []
        self.failed: list[str] = []
        self.during = ""

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(90)

    def _ask(self, ask: Callable[[], httpx.Response]) -> None:
        while not self._over.is_set():
            began, during = time.monotonic(), self.during
            try:
                status = ask().status_code
            except httpx.HTTPError as error:
                status = 0
                self.failed.append(f"{during}: {type(error).__name__}")
            took_s = time.monotonic() - began
            self.took_s.append(took_s)
            if took_s > SLOW_S:
                self.slow.append(f"{during}: {took_s:.1f} s")
            if status not in {0, 200}:
                self.failed.append(f"{during}: {status}")
            self._over.wait(max(0.0, EVERY_S - took_s))

    def _list(self) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self._scene.made['neighbour_owner']}"}
        return self._web.get("/api/v1/tasks?limit=5", headers=headers)

    def _chat(self) -> httpx.Response:
        body = {"model": "helper", "messages": [{"role": "user", "content": CANARY}]}
        headers = {"Authorization": f"Bearer {self._scene.neighbour}", "X-Session-Id": "at work"}
        return self._gateway.post("/v1/chat/completions", json=body, headers=headers)


@contextmanager
def serve_models() -> Iterator[str]:
    """The address of model servers that misbehave."""
    with LocalServer(ModelServer) as server:
        yield server.url
