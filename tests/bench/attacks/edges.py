"""Without an account, or with one token: what comes before and around a request."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tests.bench.attacks.scene import Found, Scene, attack
from tests.edges.raw_connection import RawConnection, ask, make_head

MIB = 2**20
JSON = "Content-Type: application/json"


def both(scene: Scene) -> list[int]:
    return [scene.web_port, scene.gateway_port]


@attack("one header of 24 MB, piece by piece", wanted="431 long before its end", limit="header_bytes")
def send_long_header(scene: Scene) -> Found:
    taken, statuses = [], []
    for port in both(scene):
        with RawConnection(port) as connected:
            connected.send(make_head("GET", "/nope").removesuffix(b"\r\n") + b"X-A: ")
            taken.append(sum(connected.send(b"a" * 65_536) for _ in range(384)) * 65_536)
            statuses.append(connected.hear().status)
    words = f"{statuses} after {max(taken) // 1000:,} kB"
    return Found(words, statuses == [431, 431])


@attack("two thousand headers", wanted="431", limit="header_lines")
def send_many_headers(scene: Scene) -> Found:
    statuses = [ask(port, "GET", "/healthz", *["A: 1"] * 2_000).status for port in both(scene)]
    return Found(str(statuses), statuses == [431, 431])


@attack("an address of 16 kB", wanted="414", limit="address_bytes")
def send_long_address(scene: Scene) -> Found:
    statuses = [ask(port, "GET", "/healthz?q=" + "a" * 16_000).status for port in both(scene)]
    return Found(str(statuses), statuses == [414, 414])


@attack("fifty requests begun and left alone, on each port", wanted="all ended within 20 s", limit="header_s")
def leave_heads(scene: Scene) -> Found:
    return _leave(scene, b"GET /healthz HTTP/1.1\r\nHost: lo", most_s=20)


@attack("fifty bodies begun and left alone, on each port", wanted="all ended within 36 s", limit="body_s")
def leave_bodies(scene: Scene) -> Found:
    lines = f"Authorization: Bearer {scene.token}", JSON, "Content-Length: 1000"
    return _leave(scene, make_head("POST", "/v1/chat/completions", *lines) + b"{", most_s=36)


def _leave(scene: Scene, begun: bytes, *, most_s: float) -> Found:
    with ExitStack() as stack:
        opened = [stack.enter_context(RawConnection(port, timeout_s=most_s)) for port in both(scene) for _ in range(50)]
        for connected in opened:
            connected.send(begun)
        until, left = time.monotonic() + most_s, 0
        for connected in opened:
            connected.socket.settimeout(max(0.01, until - time.monotonic()))
            try:
                connected.hear()
            except TimeoutError:
                left += 1
    return Found(f"{left} of {len(opened)} left", not left)


@attack(
    "300 requests of one agent token, a byte of body each", wanted="429 beyond its share", limit="requests_per_token"
)
def hold_places(scene: Scene) -> Found:
    lines = f"Authorization: Bearer {scene.token}", JSON, "Content-Length: 1000"
    refused = 0
    with ExitStack() as stack:
        opened = [stack.enter_context(RawConnection(scene.gateway_port, timeout_s=0.05)) for _ in range(300)]
        for connected in opened:
            connected.send(make_head("POST", "/v1/chat/completions", *lines) + b"{")
        time.sleep(1)
        for connected in opened:
            try:
                refused += connected.hear().status == 429
            except TimeoutError:
                continue
    return Found(f"{refused} refused", refused >= 40)


@attack("600 connections from one address", wanted="some refused with 429", limit="connections_per_address")
def open_connections(scene: Scene) -> Found:
    refused = []
    for port in both(scene):
        with ExitStack() as stack:
            opened = [stack.enter_context(RawConnection(port, timeout_s=2)) for _ in range(600)]
            try:
                refused.append(opened[-1].hear().status == 429)
            except TimeoutError:
                refused.append(False)
    return Found(f"the 600th is refused: {refused}", all(refused))


@attack("64 MB sent to the web without an account", wanted="413, nothing on the disk", limit="web_body_bytes")
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
    size = 0
    for row in scene.stack.state().services:
        if row.name.startswith("web") and row.pid:
            for file in _open_files(row.pid):
                size += file.stat().st_size if "(deleted)" in str(file.readlink()) else 0
    return size


def _open_files(pid: int) -> list[Path]:
    pids = [pid, *(int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    return [file for one in pids for file in Path(f"/proc/{one}/fd").iterdir() if file.is_symlink()]


@attack("a name twice among 23,000 in an anonymous body", wanted="400 within 2 s of CPU")
def double_a_name(scene: Scene) -> Found:
    body = "{" + ",".join([f'"{number}":1' for number in range(23_000)] + ['"z":1', '"z":2']) + "}"
    began = _cpu_s(scene, "web")
    status = ask(scene.web_port, "POST", "/api/v1/login", JSON, body=body.encode()).status
    took_s = _cpu_s(scene, "web") - began
    return Found(f"{status} after {took_s:.1f} s of CPU", status == 400 and took_s < 2)


def _cpu_s(scene: Scene, service: str) -> float:
    total = 0
    for row in scene.stack.state().services:
        if row.name.startswith(service) and row.pid:
            pids = [
                row.pid,
                *(int(word) for word in Path(f"/proc/{row.pid}/task/{row.pid}/children").read_text().split()),
            ]
            for pid in pids:
                parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += int(parts[11]) + int(parts[12])
    return total / 100


@attack("metadata nested 1,020 deep", wanted="400, and the gateway stays ready", limit="gateway_json_depth")
def nest(scene: Scene) -> Found:
    lines = f"Authorization: Bearer {scene.token}", JSON
    statuses = []
    for depth in (260, 600, 1_020):
        body = b'{"model":"plain-helper","messages":[{"role":"user","content":"x"}],"metadata":%s%s}'
        filled = body % (b"[" * depth, b"]" * depth)
        statuses.append(ask(scene.gateway_port, "POST", "/v1/chat/completions", *lines, body=filled).status)
    time.sleep(1)
    ready = ask(scene.gateway_port, "GET", "/readyz").status
    return Found(f"{statuses}, readiness {ready}", statuses == [400] * 3 and ready == 200)


@attack("1.2 million lists in one body", wanted="400 before they are made", limit="json_values")
def send_values(scene: Scene) -> Found:
    lines = f"Authorization: Bearer {scene.token}", JSON
    body = b'{"model":"plain-helper","messages":[' + b"[]," * 1_200_000 + b"1]}"
    heard = ask(scene.gateway_port, "POST", "/v1/chat/completions", *lines, body=body)
    return Found(f"{heard.status} {heard.json['error']['code']}", heard.json["error"]["code"] == "too_many_values")


@attack("a page of traces after a number of 5,000 digits", wanted="400")
def ask_after(scene: Scene) -> Found:
    found = scene.gateway.get(
        f"/sessions/x/traces?after={'9' * 5_000}", headers={"Authorization": f"Bearer {scene.token}"}
    )
    return Found(str(found.status_code), found.status_code == 400)


@attack("fourteen sign-ins, another forwarded address each time", wanted="429 after ten")
def forward(scene: Scene) -> Found:
    body = {"username": "mallory-2", "password": "wrong"}
    statuses = [
        scene.web.post("/api/v1/login", json=body, headers={"X-Forwarded-For": f"203.0.113.{number}"}).status_code
        for number in range(14)
    ]
    return Found(f"{statuses.count(401)} tried, {statuses.count(429)} refused", 429 in statuses)


@attack("24 sign-ins at once with made-up names", wanted="no 500, less than 600 MB")
def sign_in(scene: Scene) -> Found:
    import httpx

    def post(number: int) -> int:
        with httpx.Client(base_url=scene.web.base_url, timeout=60) as client:
            page = client.get("/sign-in/")
            token = client.cookies.get("csrftoken", "")
            given = {"username": f"nobody-{number}", "password": "wrong", "csrfmiddlewaretoken": token}
            return client.post(page.url, data=given, headers={"Referer": str(page.url)}).status_code

    with ThreadPoolExecutor(24) as pool:
        statuses = list(pool.map(post, range(24)))
    peak = scene.peak_bytes("web") // MIB
    return Found(f"{sorted(set(statuses))}, peak {peak} MB", max(statuses) < 500 and peak < 600)


@attack("figures of the gateway", wanted="no address of a tenant's server")
def read_metrics(scene: Scene) -> Found:
    text = scene.gateway.get("/metrics").text
    told = "http://" in text or "https://" in text
    seen = ask(scene.gateway_port, "GET", "/metrics", "X-Forwarded-For: 203.0.113.9").status
    return Found(f"addresses: {told}; from afar: {seen}", not told and seen == 403)


@attack("the API's schema, asked for eight times", wanted="not made anew each time")
def read_schema(scene: Scene) -> Found:
    scene.web.get("/api/schema/")
    scene.web.get("/api/schema/")
    began = _cpu_s(scene, "web")
    for _ in range(8):
        scene.web.get("/api/schema/")
    took_s = _cpu_s(scene, "web") - began
    return Found(f"{took_s / 8:.2f} s of CPU each", took_s / 8 < 0.25)


@attack("a web socket from another port of this host", wanted="refused")
def open_socket(scene: Scene) -> Found:
    upgrade = (
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {'A' * 22}==",
    )
    heard = ask(scene.web_port, "GET", "/ws/live/", "Origin: http://127.0.0.1:9999", *upgrade)
    return Found(str(heard.status), heard.status in {400, 401, 403})
