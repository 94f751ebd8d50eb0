"""Every limit of the table, hit from outside: the right answer in the shape of the API, and nobody else waits.

`tentalis.core.edge_limits` is the table; a row without an attempt here is a failure.
"""

import json
import select
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from django.test import Client
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.sync.client import connect
from websockets.typing import Origin

from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.base.counting import forget_callers
from tentalis.core.checked import FieldError
from tentalis.core.edge_limits import GATEWAY, OUTBOUND, WEB, EdgeLimits, list_rows
from tentalis.limits import LIMITS
from tentalis.outbound.sync import AnswerTooLongError, guarded_client
from tests.apps.gateway.running import GatewayProcess, make_agent, make_chat_worker, make_provider
from tests.apps.gateway.test_edge import wait_for
from tests.apps.gateway.upstream import StubUpstream
from tests.bench.attack import NO_ATTACK
from tests.bench.attacks.scene import ATTACKS
from tests.edges.limit_servers import NEIGHBOUR_S, SMALL, SMALL_LIMITS, Neighbour, WebProcess
from tests.edges.raw_connection import Heard, RawConnection, ask, make_head
from tests.factories import make_project, make_user
from tests.local_server import LocalHandler, LocalServer

pytestmark = [pytest.mark.broker, pytest.mark.slow]
JSON = "Content-Type: application/json"
LATE = 408


@dataclass(frozen=True)
class Scene:
    """What an attempt has at hand.

    Args:
        port, pid: of the edge that is tried. token: of one who may ask there.
    """

    edge: str
    port: int
    pid: int
    token: str
    upstream: StubUpstream

    @property
    def path(self) -> str:
        return "/api/v1/login" if self.edge == WEB else "/v1/chat/completions"

    def post(self, body: bytes, *headers: str) -> Heard:
        lines = ("Content-Type: application/json", f"Authorization: Bearer {self.token}", *headers)
        path = "/api/v1/tasks" if self.edge == WEB else self.path
        return ask(self.port, "POST", path, *lines, body=body)

    def chat(self, **stub: object) -> Heard:
        self.upstream.plan(**stub)
        try:
            return self.post(json.dumps({"model": "helper", "messages": [{"role": "user", "content": "x"}]}).encode())
        finally:
            self.upstream.reset()

    def begin(self, length: int) -> RawConnection:
        """A request whose body has only begun."""
        connected = RawConnection(self.port)
        lines = f"Authorization: Bearer {self.token}", "Content-Type: application/json", f"Content-Length: {length}"
        connected.send(make_head("POST", self.path, *lines) + b"{")
        return connected


Attempt = Callable[[Scene], Heard]


def send_long_value(scene: Scene) -> Heard:
    """A header that goes on and on, in pieces."""
    with RawConnection(scene.port) as connected:
        connected.send(f"GET {scene.path} HTTP/1.1\r\nHost: localhost\r\nX-A: ".encode())
        for _ in range(200):
            if not connected.send(b"a" * 16_384):
                break
        return connected.hear()


def send_headers(scene: Scene) -> Heard:
    lines = [f"X-{number}: {'a' * 200}" for number in range(int(SMALL["header_bytes"] // 200))]
    return ask(scene.port, "GET", scene.path, *lines)


def send_many_headers(scene: Scene) -> Heard:
    lines = [f"X-{number}: 1" for number in range(int(SMALL["header_lines"]) + 1)]
    return ask(scene.port, "GET", scene.path, *lines)


def send_long_address(scene: Scene) -> Heard:
    return ask(scene.port, "GET", f"{scene.path}?q={'a' * int(SMALL['address_bytes'])}")


def send_half_a_head(scene: Scene) -> Heard:
    with RawConnection(scene.port) as connected:
        connected.send(f"POST {scene.path} HTTP/1.1\r\nHost: lo".encode())
        return connected.hear()


def send_nothing_more(scene: Scene) -> Heard:
    with RawConnection(scene.port) as connected:
        connected.send(make_head("GET", "/healthz"))
        assert connected.hear().status == 200
        return connected.hear()


def send_large_body(scene: Scene) -> Heard:
    """Only said to be large: it is refused before any of it comes."""
    with scene.begin(10**12) as connected:
        return connected.hear()


def send_spans(scene: Scene, body: bytes) -> Heard:
    lines = f"Authorization: Bearer {scene.token}", "Content-Type: application/x-protobuf"
    return ask(scene.port, "POST", "/v1/traces", *lines, body=body)


def send_large_batch(scene: Scene) -> Heard:
    return send_spans(scene, b" " * 12_000)


def send_batch_of_values(scene: Scene) -> Heard:
    """Of resources without a span."""
    return send_spans(scene, b"\x0a\x00" * 1_001)


def send_batch_of_spans(scene: Scene) -> Heard:
    data = TracesData()
    scope = data.resource_spans.add().scope_spans.add()
    for _ in range(51):
        scope.spans.add()
    return send_spans(scene, data.SerializeToString())


def send_large_chunks(scene: Scene) -> Heard:
    """Of a length that is not said."""
    with RawConnection(scene.port) as connected:
        lines = f"Authorization: Bearer {scene.token}", "Transfer-Encoding: chunked", "Content-Type: application/json"
        connected.send(make_head("POST", scene.path, *lines))
        for _ in range(20):
            connected.send(b"1000\r\n" + b" " * 0x1000 + b"\r\n")
        return connected.hear()


def send_bodies_together(scene: Scene) -> Heard:
    """Each small enough, held open until there are too many.

    Again where the first was hung up on for being late before the last had come: nobody says how fast a machine is.
    """
    for _ in range(20):
        with ExitStack() as stack:
            opened = [stack.enter_context(scene.begin(int(SMALL["gateway_body_bytes"]))) for _ in range(3)]
            for connected in opened:
                connected.send(b" " * 38_000)
            heard = opened[-1].hear()
        if heard.status != LATE:
            break
    return heard


def send_half_a_body(scene: Scene) -> Heard:
    with scene.begin(1000) as connected:
        return connected.hear()


def send_levels(most: int) -> Attempt:
    return lambda scene: scene.post(b'{"model":"helper","metadata":' + b"[" * most + b"]" * most + b"}")


def send_values(scene: Scene) -> Heard:
    return scene.post(b'{"model":"helper","messages":[' + b"[]," * 4_000 + b"1]}")


def send_digits(scene: Scene) -> Heard:
    if scene.edge == WEB:
        return scene.post(b'{"prompt":' + b"9" * 40 + b"}")
    return ask(scene.port, "GET", f"/sessions/x/traces?after={'9' * 40}", f"Authorization: Bearer {scene.token}")


def open_connections(scene: Scene) -> Heard:
    """One of them is refused; which, depends on whether the server has seen earlier ones go."""
    with ExitStack() as stack:
        most = int(SMALL["connections_per_address"])
        opened = [stack.enter_context(RawConnection(scene.port)) for _ in range(most + 1)]
        spoken, _, _ = select.select([one.socket for one in opened], [], [], 30)
        return next(one.hear() for one in opened if one.socket is spoken[0])


def begin_requests(scene: Scene) -> Heard:
    with ExitStack() as stack:
        opened = [stack.enter_context(scene.begin(1000)) for _ in range(int(SMALL["requests_per_token"]) + 1)]
        heard = [connected.hear() for connected in opened]
        return next((one for one in heard if one.status != LATE), heard[-1])


def answer_at_length(scene: Scene) -> Heard:
    return scene.chat(reply="x" * 40_000)


def answer_squeezed(scene: Scene) -> Heard:
    """Small as it comes, and large once it is unpacked."""
    return scene.chat(reply="x" * 20_000, squeezes=True)


def ask_for_rows(scene: Scene) -> Heard:
    path = "/api/v1/tasks" if scene.edge == WEB else "/sessions/x/traces"
    return ask(scene.port, "GET", f"{path}?limit=21", f"Authorization: Bearer {scene.token}")


AT_BOTH: dict[str, list[Attempt]] = {
    "header_bytes": [send_long_value, send_headers],
    "header_lines": [send_many_headers],
    "address_bytes": [send_long_address],
    "header_s": [send_half_a_head],
    "idle_s": [send_nothing_more],
    "body_s": [send_half_a_body],
    "number_digits": [send_digits],
    "list_rows": [ask_for_rows],
}
ATTEMPTS: dict[tuple[str, str], list[Attempt]] = {
    **{(name, edge): attempts for edge in (WEB, GATEWAY) for name, attempts in AT_BOTH.items()},
    ("web_body_bytes", WEB): [send_large_body, send_large_chunks],
    ("web_json_depth", WEB): [send_levels(33)],
    ("gateway_body_bytes", GATEWAY): [send_large_body, send_large_chunks],
    ("spans_body_bytes", GATEWAY): [send_large_batch],
    ("spans_per_batch", GATEWAY): [send_batch_of_spans],
    ("spans_values", GATEWAY): [send_batch_of_values],
    ("bodies_bytes", GATEWAY): [send_bodies_together],
    ("gateway_json_depth", GATEWAY): [send_levels(65), send_levels(1_020), send_levels(4_000)],
    ("json_values", GATEWAY): [send_values],
    ("requests_per_token", GATEWAY): [begin_requests],
    ("gateway_answer_bytes", GATEWAY): [answer_at_length, answer_squeezed],
    # last: it takes a moment until the server has seen them go
    ("connections_per_address", WEB): [open_connections],
    ("connections_per_address", GATEWAY): [open_connections],
}
ELSEWHERE = {
    ("answer_bytes", OUTBOUND): "below",
    ("job_answer_bytes", OUTBOUND): "below: the same guard",
    ("error_answer_bytes", GATEWAY): "tests/apps/gateway/test_answers.py",
    ("retry_after_s", GATEWAY): "tests/apps/gateway/test_answers.py",
    ("retry_after_s", OUTBOUND): "tests/apps/webhooks/test_sending.py",
    ("set_aside_bytes", GATEWAY): "tests/apps/gateway/test_spool.py",
    ("socket_bytes", WEB): "below",
    **dict.fromkeys((("upload_bytes", WEB), ("uploads_bytes", WEB)), "tests/apps/worlds/test_handed_in.py"),
    **{(row.name, WEB): "tests/apps/console/test_exports.py" for row in list_rows() if row.name.startswith("import_")},
    ("page_chars", WEB): "tests/apps/console/test_page_allowance.py",
    ("page_markdown_chars", WEB): "tests/apps/console/test_page_allowance.py",
}
"""Rows that no plain request reaches, and where they are tried."""


@pytest.fixture(scope="module")
def upstream() -> Iterator[StubUpstream]:
    with StubUpstream() as running:
        yield running


@pytest.fixture(scope="module")
def web(django_db_setup: None) -> Iterator[WebProcess]:
    """With small limits, for all tests here: it begins without a row, and each test brings its own."""
    with WebProcess(LIMITS=SMALL_LIMITS) as running:
        yield running
        assert running.process.poll() is None


@pytest.fixture(scope="module")
def guarded_web(django_db_setup: None) -> Iterator[WebProcess]:
    """Behind a proxy that it believes, and with figures for those who have a token."""
    with WebProcess(LIMITS=SMALL_LIMITS, TRUSTED_PROXIES="127.0.0.2", METRICS_TOKEN="figures") as running:
        yield running
        assert running.process.poll() is None


@pytest.fixture
def gateway(transactional_db: None) -> Iterator[GatewayProcess]:
    """With small limits; it keeps its place in the database that the test empties."""
    with GatewayProcess(LIMITS=SMALL_LIMITS) as running:
        yield running
        assert running.process.poll() is None


@pytest.fixture
def agent(transactional_db: None, upstream: StubUpstream) -> str:
    """Token of one who may ask at both edges."""
    project = make_project("attacked")
    make_chat_worker(project, make_provider(project, upstream.url))
    agent = make_agent(project)
    scopes = [Right.GATEWAY_USE, Right.SESSIONS_READ, Right.TASKS_READ, Right.TASKS_WRITE]
    return create_token(user=agent, name="attacker", scopes=scopes, by=agent, project=project)[1]


@pytest.fixture
def web_scene(agent: str, web: WebProcess, upstream: StubUpstream) -> Scene:
    answers(web.port)  # whoever asked before is gone when the server has seen it
    return Scene(WEB, web.port, web.process.pid, agent, upstream)


@pytest.fixture
def gateway_scene(agent: str, gateway: GatewayProcess, upstream: StubUpstream) -> Scene:
    return Scene(GATEWAY, gateway.port, gateway.process.pid, agent, upstream)


def answers(port: int) -> None:
    wait_for(lambda: ask(port, "GET", "/healthz").status == 200)


def test_every_row_of_the_table_is_tried() -> None:
    declared = {(row.name, edge) for row in list_rows() for edge in row.edges}
    assert declared == ATTEMPTS.keys() | ELSEWHERE.keys()
    assert not ATTEMPTS.keys() & ELSEWHERE.keys()


def test_every_row_of_the_table_has_an_attack_or_says_why_none() -> None:
    attacked = {one.limit for one in ATTACKS if one.limit}
    assert {row.name for row in list_rows()} == attacked | NO_ATTACK.keys()
    assert not attacked & NO_ATTACK.keys()


@pytest.mark.parametrize("edge", [WEB, GATEWAY])
def test_each_limit_answers_in_the_shape_of_its_api_and_nobody_else_waits(
    transactional_db: None, request: pytest.FixtureRequest, edge: str
) -> None:
    scene: Scene = request.getfixturevalue(f"{edge}_scene")
    found = []
    path = "/api/v1/projects" if edge == WEB else "/v1/models"
    requests = [("/healthz", ()), (path, (f"Authorization: Bearer {scene.token}",))]
    statuses = {row.name: row.status for row in list_rows()}
    with Neighbour(scene.port, requests) as neighbour:
        for (name, where), attempts in ATTEMPTS.items():
            for attempt in attempts if where == edge else ():
                heard = attempt(scene)
                if problem := find_fault(heard, statuses[name], edge, scene.path):
                    found.append(f"{name} ({attempt.__name__}): {problem}")
    assert not found
    assert neighbour.statuses <= {200, 403}
    assert neighbour.slowest_s < NEIGHBOUR_S


def find_fault(heard: Heard, status: int, edge: str, path: str) -> str:
    """What is wrong with a refusal; "" where nothing is."""
    if heard.status != status:
        return f"wanted {status}, found {heard.status} {heard.body[:200]!r}"
    if not status:
        return ""
    if "server" in heard.headers and heard.headers["server"] != "tentalis":
        return f"it tells that it is {heard.headers['server']}"
    body = heard.json
    if edge == WEB:
        is_problem = heard.headers["content-type"] == "application/problem+json"
        return "" if is_problem and body["status"] == status and body["code"] else f"no problem: {heard}"
    error = body["error"]
    return "" if error["message"] and error["type"] and error["code"] else f"no error of OpenAI's: {heard}"


def test_a_browser_is_refused_in_a_line_of_text(web_scene: Scene) -> None:
    heard = ask(web_scene.port, "GET", f"/sign-in/?q={'a' * 2_000}")
    assert (heard.status, heard.headers["content-type"]) == (414, "text/plain; charset=utf-8")


def test_a_refused_body_leaves_nothing_on_the_disk(web_scene: Scene) -> None:
    """Every file that the web has open is looked at while bodies are on their way to it."""
    before = find_nameless_files(web_scene.pid)
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(web_scene.begin(19_000)).send(b" " * 18_000)
        assert send_large_chunks(web_scene).status == 413
        assert find_nameless_files(web_scene.pid) == before


def find_nameless_files(pid: int) -> set[str]:
    """What a process has open and has deleted, as temporary files are."""
    found = {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()}
    return {name for name in found if "(deleted)" in name}


def test_connections_that_end_are_not_counted_any_more(web_scene: Scene, gateway_scene: Scene) -> None:
    for _ in range(3):
        assert open_connections(web_scene).status == 429
        assert open_connections(gateway_scene).status == 429
    for scene in (web_scene, gateway_scene):
        answers(scene.port)


@pytest.mark.parametrize(("name", "statuses"), [("web", {401, 429}), ("guarded_web", {401})])
def test_an_address_that_a_header_names_is_believed_from_a_proxy_of_the_settings_alone(
    transactional_db: None, request: pytest.FixtureRequest, name: str, statuses: set[int]
) -> None:
    forget_callers()
    asked: WebProcess = request.getfixturevalue(name)
    body = json.dumps({"username": "nobody", "password": "nothing"}).encode()
    heard = [
        ask(asked.port, "POST", "/api/v1/login", f"X-Forwarded-For: 203.0.113.{number}", JSON, body=body).status
        for number in range(21)  # more than ten in one of two minutes, wherever one ends
    ]
    assert set(heard) == statuses


def test_a_message_to_the_live_socket_has_a_limit(web_scene: Scene) -> None:
    client = Client()
    client.force_login(make_user("alice"))
    cookie = {"Cookie": f"sessionid={client.cookies['sessionid'].value}"}
    url = f"ws://localhost:{web_scene.port}/ws/live/"
    with connect(url, origin=Origin(f"http://localhost:{web_scene.port}"), additional_headers=cookie) as live:
        live.send("x" * 3_000)
        with pytest.raises(ConnectionClosed) as caught:
            live.recv(30)
            live.recv(30)
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == CloseCode.MESSAGE_TOO_BIG


def test_the_figures_are_for_this_machine_or_whoever_has_the_token(
    web: WebProcess, guarded_web: WebProcess, gateway: GatewayProcess
) -> None:
    with GatewayProcess(LIMITS=SMALL_LIMITS, METRICS_TOKEN="figures") as guarded_gateway:
        for port in (guarded_web.port, guarded_gateway.port):
            assert ask(port, "GET", "/metrics").status == 403
            assert ask(port, "GET", "/metrics", "Authorization: Bearer wrong").status == 403
            assert ask(port, "GET", "/metrics", "Authorization: Bearer figures").status == 200
    for port in (web.port, gateway.port):
        assert ask(port, "GET", "/metrics").status == 200
        assert ask(port, "GET", "/metrics", "X-Forwarded-For: 203.0.113.1").status == 403


@pytest.mark.parametrize(("path", "most"), [("/small", 1000), ("/none", None)])
def test_what_another_server_answers_is_read_to_a_limit(path: str, most: int | None) -> None:
    class Large(LocalHandler):
        def do_GET(self) -> None:
            self.answer(200, b"x" * (1001 if self.path == "/small" else LIMITS.answer_bytes + 1))

    given: dict[str, Any] = {} if most is None else {"max_bytes": most}
    with (
        LocalServer(Large) as server,
        guarded_client(allow_private=True, **given) as client,
        pytest.raises(AnswerTooLongError, match="is longer than"),
    ):
        client.get(server.url + path)


def test_an_answer_that_says_it_is_too_long_is_not_waited_for() -> None:
    class Announcing(LocalHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(10**15))
            self.end_headers()
            over.wait(60)

    over = Event()
    with LocalServer(Announcing) as server, guarded_client(allow_private=True, timeout=20) as client:
        with pytest.raises(AnswerTooLongError, match="is longer than"):
            client.get(server.url)
        over.set()


def test_a_limit_that_cannot_be_is_refused_with_its_name() -> None:
    for wrong in ({"header_bytes": 0}, {"header_bytes": 1.5}, {"header_s": "1"}, {"body_s": True}, {"nothing": 1}):
        with pytest.raises(FieldError, match=next(iter(wrong))):
            EdgeLimits.from_json(wrong)


def test_the_guide_shows_the_table_as_it_is() -> None:
    told = Path("docs/limits.md").read_text(encoding="utf-8")
    for row in list_rows():
        line = (
            f"| `{row.name}` | {row.value:,} {row.unit} | {', '.join(row.edges)} | {row.status or '-'} | {row.words} |"
        )
        assert line in told, f"docs/limits.md lacks: {line}"
