"""Without an account, or with one token: what comes before and around a request."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, TracesData

from tests.bench.attacks.scene import MIB, Found, Scene, as_task, attack
from tests.edges.raw_connection import ATTACKER, NEIGHBOUR, Heard, RawConnection, ask, make_head

JSON = "Content-Type: application/json"
CHAT = "/v1/chat/completions"


@attack(
    "one header of 24 MB, piece by piece",
    wanted="431 long before its end",
    finding="a header that does not end stops the web",
    limit="header_bytes",
)
def send_long_header(scene: Scene) -> Found:
    taken, statuses = [], []
    for port in scene.ports:
        with RawConnection(port) as connected:
            connected.send(make_head("GET", "/nope").removesuffix(b"\r\n") + b"X-A: ")
            taken.append(sum(connected.send(b"a" * 65_536) for _ in range(384)) * 65_536)
            statuses.append(connected.hear().status)
    words = f"{statuses} after {max(taken) // 1000:,} kB"
    return Found(words, statuses == [431, 431])


@attack("two thousand headers", wanted="431", limit="header_lines")
def send_many_headers(scene: Scene) -> Found:
    statuses = [ask(port, "GET", "/healthz", *["A: 1"] * 2_000).status for port in scene.ports]
    return Found(str(statuses), statuses == [431, 431])


@attack("an address of 16 kB", wanted="414", limit="address_bytes")
def send_long_address(scene: Scene) -> Found:
    statuses = [ask(port, "GET", "/healthz?q=" + "a" * 16_000).status for port in scene.ports]
    return Found(str(statuses), statuses == [414, 414])


@attack("fifty requests begun and left alone, on each port", wanted="all ended within 20 s", limit="header_s")
def leave_heads(scene: Scene) -> Found:
    return _leave(scene, b"GET /healthz HTTP/1.1\r\nHost: lo", most_s=20)


@attack(
    "fifty bodies begun and left alone, on each port",
    wanted="all ended within 36 s",
    finding="slow bodies hold the gateway",
    limit="body_s",
)
def leave_bodies(scene: Scene) -> Found:
    lines = f"Authorization: Bearer {scene.token}", JSON, "Content-Length: 1000"
    return _leave(scene, make_head("POST", CHAT, *lines) + b"{", most_s=36)


@attack("fifty connections with nothing more on them, on each port", wanted="all ended within 66 s", limit="idle_s")
def leave_connections(scene: Scene) -> Found:
    return _leave(scene, make_head("GET", "/healthz"), most_s=66, answers=1)


def _leave(scene: Scene, begun: bytes, *, most_s: float, answers: int = 0) -> Found:
    with ExitStack() as stack:
        opened = [stack.enter_context(RawConnection(port)) for port in scene.ports for _ in range(50)]
        for connected in opened:
            connected.send(begun)
        for connected in opened * answers:
            connected.hear()
        until, left = time.monotonic() + most_s, 0
        for connected in opened:
            connected.socket.settimeout(max(0.01, until - time.monotonic()))
            try:
                connected.hear()
            except TimeoutError:
                left += 1
    return Found(f"{left} of {len(opened)} left", not left)


@attack(
    "300 requests of one agent token, a byte of body each",
    wanted="429 beyond its share",
    finding="slow bodies hold the gateway",
    limit="requests_per_token",
)
def hold_places(scene: Scene) -> Found:
    lines = f"Authorization: Bearer {scene.token}", JSON, "Content-Length: 1000"
    with ExitStack() as stack:
        opened = [stack.enter_context(RawConnection(scene.gateway_port)) for _ in range(300)]
        for connected in opened:
            connected.send(make_head("POST", CHAT, *lines) + b"{")
        time.sleep(2)
        refused = sum(_hear_now(connected) == 429 for connected in opened)
    return Found(f"{refused} refused", refused >= 40)


def _hear_now(connected: RawConnection) -> int:
    """The status of what has come; 0 where nothing has."""
    connected.socket.settimeout(0.01)
    try:
        return connected.hear().status
    except TimeoutError:
        return 0


@attack("1,400 connections from one address", wanted="some refused with 429", limit="connections_per_address")
def open_connections(scene: Scene) -> Found:
    refused = []
    for port in scene.ports:
        with ExitStack() as stack:
            opened = [stack.enter_context(RawConnection(port)) for _ in range(1_400)]
            time.sleep(1)
            refused.append(sum(_hear_now(connected) == 429 for connected in opened))
    return Found(f"{refused} refused at the web and the gateway", all(refused))


@attack(
    "64 MB sent to the web without an account",
    wanted="413, nothing on the disk",
    finding="anonymous uploads fill the disk",
    limit="web_body_bytes",
)
def upload(scene: Scene) -> Found:
    most, statuses = 0, []
    for path in ("/nope", "/api/v1/login"):
        with RawConnection(scene.web_port) as connected:
            connected.send(make_head("POST", path, JSON, "Transfer-Encoding: chunked"))
            for _ in range(64):
                if not connected.send(b"100000\r\n" + b"a" * MIB + b"\r\n"):
                    break
            time.sleep(0.2)
            most = max(most, _spooled_bytes(scene))
            connected.socket.settimeout(3)
            try:
                statuses.append(connected.hear().status)
            except TimeoutError:
                statuses.append(-1)
    return Found(f"{statuses}, {most // 1000:,} kB in temporary files", most < 4 * MIB and set(statuses) <= {413, 0})


def _spooled_bytes(scene: Scene) -> int:
    """Of files that the web's processes hold open and that have no name any more."""
    files = [file for pid in scene.pids("web") for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()]
    return sum(file.stat().st_size for file in files if "(deleted)" in str(file.readlink()))


@attack("48 MB in one request to the gateway", wanted="413", limit="gateway_body_bytes")
def send_large_request(scene: Scene) -> Found:
    lines = f"Authorization: Bearer {scene.token}", JSON
    heard = ask(scene.gateway_port, "POST", CHAT, *lines, body=b'{"x": "' + b"a" * 48 * MIB + b'"}')
    return Found(str(heard.status), heard.status == 413)


@attack("12 MB of empty spans to the gateway", wanted="413", limit="spans_body_bytes")
def send_large_batch(scene: Scene) -> Found:
    return _send_batch(scene, b"\x0a\x00" * 6 * MIB, wanted=413)


@attack("four million empty values in a batch of spans", wanted="400 before they are made", limit="spans_values")
def send_values_of_spans(scene: Scene) -> Found:
    return _send_batch(scene, b"\x0a\x00" * 4 * MIB, wanted=400)


@attack("12,000 spans in a batch", wanted="400", limit="spans_per_batch")
def send_many_spans(scene: Scene) -> Found:
    scope = ScopeSpans(spans=[Span() for _ in range(12_000)])
    return _send_batch(
        scene, TracesData(resource_spans=[ResourceSpans(scope_spans=[scope])]).SerializeToString(), wanted=400
    )


def _send_batch(scene: Scene, body: bytes, *, wanted: int) -> Found:
    lines = f"Authorization: Bearer {scene.token}", "Content-Type: application/x-protobuf"
    heard = ask(scene.gateway_port, "POST", "/v1/traces", *lines, body=body)
    return Found(str(heard.status), heard.status == wanted)


@attack("ten requests of 30 MB, all but their last byte", wanted="429 beyond 268 MB", limit="bodies_bytes")
def hold_bodies(scene: Scene) -> Found:
    lines = f"Authorization: Bearer {scene.token}", JSON, f"Content-Length: {30 * MIB + 1}"
    with ExitStack() as stack:
        opened = [stack.enter_context(RawConnection(scene.gateway_port)) for _ in range(10)]
        for connected in opened:
            connected.send(make_head("POST", CHAT, *lines), b" " * 30 * MIB)
        statuses = [_hear_now(connected) for connected in opened]
    return Found(f"{statuses.count(429)} of 10 refused", 429 in statuses)


@attack(
    "a name twice among 23,000 in an anonymous body",
    wanted="400 within 2 s of CPU",
    finding="a name twice in an anonymous body costs minutes",
)
def double_a_name(scene: Scene) -> Found:
    body = "{" + ",".join([f'"{number}":1' for number in range(23_000)] + ['"z":1', '"z":2']) + "}"
    began = scene.cpu_s("web")
    heard = ask(scene.web_port, "POST", "/api/v1/login", JSON, body=body.encode())
    took_s = scene.cpu_s("web") - began
    return Found(f"{heard.status} after {took_s:.1f} s of CPU", heard.status == 400 and took_s < 2)


@attack(
    "metadata nested 260, 600 and 1,020 deep",
    wanted="400, and the gateway stays ready",
    finding="deep metadata makes the gateway unready for good",
    limit="gateway_json_depth",
)
def nest(scene: Scene) -> Found:
    statuses = []
    for depth in (260, 600, 1_020):
        body = b'{"model":"plain-helper","messages":[{"role":"user","content":"x"}],"metadata":%s%s}'
        statuses.append(_ask_gateway(scene, body % (b"[" * depth, b"]" * depth)).status)
    time.sleep(1)
    ready = ask(scene.gateway_port, "GET", "/readyz").status
    return Found(f"{statuses}, readiness {ready}", statuses == [400] * 3 and ready == 200)


@attack("a task whose metadata is nested 100 deep", wanted="400, for its levels", limit="web_json_depth")
def nest_at_web(scene: Scene) -> Found:
    body, headers = as_task("[" * 100 + "]" * 100), {"Content-Type": "application/json"}
    found = scene.call("POST", "tasks", content=body, headers=headers)
    return Found(f"{found.status_code} {found.text[-60:]}", found.status_code == 400 and "levels" in found.text)


@attack("1.2 million lists in one body", wanted="400 before they are made", limit="json_values")
def send_values(scene: Scene) -> Found:
    heard = _ask_gateway(scene, b'{"model":"plain-helper","messages":[' + b"[]," * 1_200_000 + b"1]}")
    code = heard.json.get("error", {}).get("code", "")
    return Found(f"{heard.status} {code}", code == "too_many_values")


def _ask_gateway(scene: Scene, body: bytes) -> Heard:
    return ask(scene.gateway_port, "POST", CHAT, f"Authorization: Bearer {scene.token}", JSON, body=body)


@attack(
    "numbers of 5,000 digits, in an address and a body",
    wanted="400",
    finding="numbers and depths break the gateway",
    limit="number_digits",
)
def send_digits(scene: Scene) -> Found:
    nines, headers = "9" * 5_000, {"Authorization": f"Bearer {scene.token}"}
    scripts = "\u0663\u0664"  # digits too, in another script
    statuses = [scene.gateway.get(f"/sessions/x/traces?after={nines}", headers=headers).status_code]
    statuses.append(scene.gateway.get(f"/sessions/x/traces?after={scripts}", headers=headers).status_code)
    for digits in (30, 5_000):
        heard = scene.call("POST", "tasks", content=as_task("9" * digits), headers={"Content-Type": "application/json"})
        statuses.append(heard.status_code)
    return Found(str(statuses), statuses == [400] * 4)


@attack("a page of a million rows, of tasks and of traces", wanted="400", limit="list_rows")
def ask_for_rows(scene: Scene) -> Found:
    headers = {"Authorization": f"Bearer {scene.token}"}
    statuses = [
        scene.call("GET", "tasks?limit=1000000").status_code,
        scene.gateway.get("/sessions/x/traces?limit=1000000", headers=headers).status_code,
    ]
    return Found(str(statuses), statuses == [400, 400])


@attack(
    "fourteen sign-ins from this machine, another forwarded address each time",
    wanted="429 after ten",
    finding="forwarded addresses are believed",
)
def forward(scene: Scene) -> Found:
    body = b'{"username": "mallory-2", "password": "wrong"}'
    statuses = [
        ask(
            scene.web_port,
            "POST",
            "/api/v1/login",
            JSON,
            f"X-Forwarded-For: 203.0.113.{n}",
            body=body,
            source=NEIGHBOUR,
        ).status
        for n in range(14)
    ]
    return Found(f"{statuses.count(401)} tried, {statuses.count(429)} refused", 429 in statuses)


@attack(
    "24 sign-ins at once with made-up names, for ten seconds",
    wanted="no error of ours, less than 600 MB",
    finding="sign-ins at once take the memory and every connection",
)
def sign_in(scene: Scene) -> Found:
    """From many addresses, so that the limit of one does not end it."""
    until = time.monotonic() + 10

    def post(number: int) -> list[int]:
        address = f"127.1.{number}.1"
        statuses: list[int] = []
        with httpx.Client(
            base_url=scene.web.base_url, timeout=60, transport=httpx.HTTPTransport(local_address=address)
        ) as client:
            page = client.get("/sign-in/")
            token = client.cookies.get("csrftoken", "")
            while time.monotonic() < until:
                name = f"nobody-{number}-{len(statuses)}"
                given = {"username": name, "password": "wrong", "csrfmiddlewaretoken": token}
                statuses.append(client.post(page.url, data=given, headers={"Referer": str(page.url)}).status_code)
        return statuses

    with ThreadPoolExecutor(24) as pool:
        statuses = [status for found in pool.map(post, range(24)) for status in found]
    peak, wrong = scene.peak_mb("web"), [status for status in statuses if status >= 500 and status != 503]
    words = f"{len(statuses)} answered: {sorted(set(statuses))}, peak {peak} MB a process"
    return Found(words, not wrong and peak < 600 and 400 in statuses)


@attack(
    "thirty sign-ins at once for one name",
    wanted="at most ten passwords tried",
    finding="sign-ins at once take the memory and every connection",
)
def guess(scene: Scene) -> Found:
    body = b'{"username": "mallory-3", "password": "wrong"}'
    with ThreadPoolExecutor(30) as pool:
        statuses = list(
            pool.map(lambda _: ask(scene.web_port, "POST", "/api/v1/login", JSON, body=body).status, range(30))
        )
    tried = statuses.count(401)
    return Found(f"{tried} tried, {statuses.count(429)} refused", tried <= 10 and set(statuses) <= {401, 429, 503})


@attack(
    "figures of the gateway",
    wanted="no address of a tenant's server",
    finding="figures tell tenants' addresses",
)
def read_metrics(scene: Scene) -> Found:
    scene.chat("broken-helper")
    text = scene.gateway.get("/metrics").text
    told = any(words in text for words in ("http://", "https://", "broken/v1", scene.models.rpartition(":")[2]))
    seen = ask(scene.gateway_port, "GET", "/metrics", "X-Forwarded-For: 203.0.113.9", source=ATTACKER).status
    return Found(f"addresses: {told}; from afar: {seen}", not told and seen == 403 and "tentalis_gateway" in text)


@attack(
    "the API's schema, asked for eight times",
    wanted="not made anew each time",
    finding="the API's schema is made anew for anybody",
)
def read_schema(scene: Scene) -> Found:
    for _ in range(6):
        scene.web.get("/api/schema/")
    began = scene.cpu_s("web")
    statuses = [ask(scene.web_port, "GET", "/api/schema/").status for _ in range(8)]
    took_s = scene.cpu_s("web") - began
    return Found(f"{took_s / 8:.2f} s of CPU each", took_s / 8 < 0.25 and set(statuses) == {200})
