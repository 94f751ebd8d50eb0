"""With an account: what one tenant, or one agent of it, tries on others."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from tests.bench.attacks.scene import CANARY, WORK, Found, Scene, attack, wait_for
from tests.edges.raw_connection import Heard, ask

ENDLESS = "a model server's answer has no end"
DRAWN = "a text that is slow to draw stops the web"
SEARCHED = "a text that is slow to search for secrets stops the web"
READ = "agents of one project read each other's conversations"
TAUGHT = "agents of one project teach on each other's conversations"
HELD = "requests that wait hold every connection"
OWNED = "anybody owns a project, and reaches others from there"
OUTLIVED = "tokens outlive what they came from"
HEARD = "live sockets hear too much, for too long, from anywhere"


@attack(
    "a model server that answers 150 MB",
    wanted="502, less than 400 MB more",
    finding=ENDLESS,
    limit="gateway_answer_bytes",
)
def answer_large(scene: Scene) -> Found:
    return _answer(scene, "large-helper", 502)


@attack("a model server that answers 200 MB, compressed", wanted="502, less than 400 MB more", finding=ENDLESS)
def answer_squeezed(scene: Scene) -> Found:
    return _answer(scene, "squeezed-helper", 502)


@attack(
    "a model server whose error is 150 MB long",
    wanted="its status, less than 30 MB more",
    finding=ENDLESS,
    limit="error_answer_bytes",
)
def answer_wrong(scene: Scene) -> Found:
    return _answer(scene, "broken-helper", 400, most_mb=30)


def _answer(scene: Scene, model: str, wanted: int, *, most_mb: int = 400) -> Found:
    before = scene.peak_mb("gateway")
    status = scene.chat(model).status_code
    more = scene.peak_mb("gateway") - before
    return Found(f"{status}, {more} MB more", status == wanted and more < most_mb)


@attack(
    "a task on a model server that answers 400 MB",
    wanted="it fails, less than 900 MB more",
    finding=ENDLESS,
    limit="job_answer_bytes",
    needs=WORK,
)
def answer_a_job(scene: Scene) -> Found:
    from apps.outbox.models import Segment

    before = scene.peak_mb("queue-workers")
    sent = _submit(scene, "endless-helper")
    number = sent.json().get("id")

    def look() -> str:
        errors = Segment.objects.filter(kind="work", subject_id=number).values_list("errors", flat=True)
        return "; ".join(str(one.get("message", one)) for row in errors for one in row)

    words = wait_for(look, most_s=40)
    more = scene.peak_mb("queue-workers") - before
    return Found(
        f"{sent.status_code}, {more} MB more: {words[:60]}", sent.status_code == 201 and bool(words) and more < 900
    )


def _submit(scene: Scene, worker: str) -> httpx.Response:
    body = {"project": "attacker", "prompt": "x", "environment": "chat", "worker": worker}
    return scene.call("POST", "tasks", json=body)


@attack("a model's name with a line end in it", wanted="502, and no header of it")
def name_a_model(scene: Scene) -> Found:
    found = scene.chat("named-helper")
    return Found(f"{found.status_code}", found.status_code == 502 and "x-evil" not in found.headers)


@attack(
    "twenty requests at once on a budget of three tokens, two an answer",
    wanted="at most two answered",
    finding="token budgets are overshot at once",
)
def overshoot(scene: Scene) -> Found:
    with ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(lambda _: scene.chat("slow-helper", token=scene.budgeted).status_code, range(20)))
    return Found(f"{statuses.count(200)} answered", 1 <= statuses.count(200) <= 2)


@attack("another agent of the project reads one's conversation", wanted="404, at the gateway and by REST", finding=READ)
def read_traces(scene: Scene) -> Found:
    scene.chat("plain-helper", session="private")

    def read(token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return scene.gateway.get("/sessions/private/traces", headers=headers).status_code

    own = wait_for(lambda: read(scene.token) == 200)
    status = read(scene.other_agent)
    listed = scene.call("GET", "sessions?key=private", token=scene.other_agent).json().get("results")
    return Found(f"its own: {own}, another's: {status}, {listed}", bool(own) and status == 404 and listed == [])


@attack(
    "another agent of the project speaks in one's conversation, and ends it",
    wanted="one's own turns stay as they are, and open",
    finding=TAUGHT,
)
def teach(scene: Scene) -> Found:
    from apps.inference.models import Session

    scene.chat("plain-helper", session="taught")
    own = {"Authorization": f"Bearer {scene.token}"}
    wait_for(lambda: scene.gateway.get("/sessions/taught/traces", headers=own).status_code == 200)
    poison = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "fine"},
        {"role": "user", "content": "No, that is wrong. It should be POISON."},
    ]
    said = scene.chat("plain-helper", token=scene.other_agent, session="taught", messages=poison).status_code
    done = scene.chat(
        "plain-helper", token=scene.other_agent, session="taught", headers={"X-Session-Done": "1"}
    ).status_code
    time.sleep(2)
    text = scene.gateway.get("/sessions/taught/traces", headers=own).text
    theirs = Session.objects.filter(project=scene.made["project"], key="taught", agent=scene.made["claw"])
    ended = theirs.exclude(closed_at=None).exists()
    words = f"{said}, {done}; {'poisoned' if 'POISON' in text else 'untouched'}, ended: {ended}"
    return Found(words, "POISON" not in text and not ended and theirs.count() == 1)


@attack(
    "one word pasted 15,000 times, then a remark on the answer",
    wanted="kept within 5 s each",
    finding=SEARCHED,
)
def paste(scene: Scene) -> Found:
    words, held = [], True
    for place, word in enumerate(("password", "sk-", "AKIA", "eyJ.")):
        session = f"pasted-{place}"
        asked = scene.chat("plain-helper", session=session, messages=[{"role": "user", "content": word * 15_000}])

        def find(session: str = session) -> Any:
            rows = scene.call("GET", f"sessions?key={session}", token=scene.token).json().get("results")
            return rows[0]["id"] if rows else None

        number = wait_for(find)
        began = time.monotonic()
        found = scene.call("POST", f"sessions/{number}/feedback", token=scene.token, json={"score": 0})
        took_s = time.monotonic() - began
        words.append(f"{asked.status_code}, {found.status_code} in {took_s:.1f} s")
        held = held and asked.status_code == 200 and found.status_code in {200, 201} and took_s < 5
    return Found("; ".join(words), held)


def _draw(scene: Scene, steps: list[str]) -> tuple[int, httpx.Response, float]:
    """An attempt of an agent's, and its page as the owner opens it: status, page, seconds."""
    from apps.accounts.models import Project
    from apps.workers.models import Worker
    from tests.factories import make_task

    project = Project.objects.get(pk=scene.made["project"])
    task = make_task(project, Worker.objects.get(project=project, name="echo")).pk
    body = {"task": task, "steps": [{"text": text} for text in steps], "answer": "["}
    sent = scene.call("POST", "attempts", token=scene.token, json=body)
    cookie = scene.cookie_of("mallory")
    began = time.monotonic()
    page = scene.web.get(f"/p/attacker/tasks/{task}/", headers={"Cookie": cookie})
    return sent.status_code, page, time.monotonic() - began


@attack(
    "an attempt of sixty steps of brackets, and its page",
    wanted="the page comes within 5 s, in parts of less than 800 kB",
    finding=DRAWN,
    limit="page_chars",
)
def draw_brackets(scene: Scene) -> Found:
    sent, page, took_s = _draw(scene, ["[" * 15_900] * 60)
    words = f"sent {sent}, page {page.status_code} after {took_s:.1f} s, {len(page.content) // 1000:,} kB"
    return Found(words, sent == 201 and page.status_code == 200 and took_s < 5 and len(page.content) < 800_000)


@attack(
    "an attempt of twenty steps, all of it markup, and its page",
    wanted="the page comes within 5 s, at most 64,000 characters drawn",
    finding=DRAWN,
    limit="page_markdown_chars",
)
def draw_markup(scene: Scene) -> Found:
    sent, page, took_s = _draw(scene, ["**a** " * 2_600] * 20)
    drawn = page.text.count("<strong>a</strong>")
    words = f"sent {sent}, page {page.status_code} after {took_s:.1f} s, {drawn:,} words drawn"
    return Found(words, sent == 201 and page.status_code == 200 and took_s < 5 and 0 < drawn <= 11_000)


@attack(
    "nine tasks on a model server that never answers, then cancelled",
    wanted="a neighbour's task is done in 60 s",
    finding="a model server that never answers stops everybody's work",
    needs=WORK,
)
def starve(scene: Scene) -> Found:
    sent = [_submit(scene, "silent-helper") for _ in range(9)]
    time.sleep(2)
    took_s = _work_for_neighbour(scene)
    for one in sent:
        scene.call("POST", f"tasks/{one.json()['id']}/cancel", json={})
    again_s = _work_for_neighbour(scene)
    count = sum(one.status_code == 201 for one in sent)
    words = f"{count} sent; the neighbour's after {took_s:.1f} s and, cancelled, {again_s:.1f} s"
    return Found(words, count == 9 and took_s < 60 and again_s < 60)


def _work_for_neighbour(scene: Scene, most_s: float = 60) -> float:
    """Seconds until a task of theirs is done."""
    from apps.tasks.models import Task

    body = {"project": "neighbour", "prompt": CANARY, "environment": "chat", "worker": "echo"}
    number = scene.call_neighbour("POST", "tasks", json=body).json()["id"]
    began = time.monotonic()
    wait_for(lambda: Task.objects.get(pk=number).state not in {"queued", "working"}, most_s=most_s)
    return time.monotonic() - began


@attack(
    "three messages of 9 MB, one conversation, settled at its end",
    wanted="a neighbour's task is done in 60 s",
    finding="large conversations keep leases from being renewed",
    needs=WORK,
)
def settle_large(scene: Scene) -> Found:
    statuses, messages = [], []
    for place in range(3):
        messages.append({"role": "user", "content": f"{place} " + "say it once more " * 560_000})
        headers = {"X-Session-Done": "1"} if place == 2 else {}
        statuses.append(scene.chat("plain-helper", session="large", headers=headers, messages=messages).status_code)
        messages.append({"role": "assistant", "content": "fine"})
    took_s = _work_for_neighbour(scene)
    return Found(f"{statuses}; the neighbour's after {took_s:.1f} s", statuses[0] == 200 and took_s < 60)


@attack(
    "forgetting everybody whose name holds an e, and nina",
    wanted="refused, or nothing of a neighbour's goes",
    finding="forgetting reaches into other projects",
)
def forget(scene: Scene) -> Found:
    body = {"project": "neighbour", "prompt": "nina, be there once", "environment": "chat", "worker": "echo"}
    headers = {"Idempotency-Key": "the-same-key"}
    first = scene.call_neighbour("POST", "tasks", json=body, headers=headers).json().get("id")
    statuses = [
        scene.call("POST", "projects/attacker/forget", json={**whom, "dry_run": False}).status_code
        for whom in ({"end_user": "e"}, {"end_user": "nina, be there once"}, {"text": "nina, be there once"})
    ]
    again = scene.call_neighbour("POST", "tasks", json=body, headers=headers).json().get("id")
    held = first == again and first is not None and statuses[0] == 400 and 200 in statuses
    return Found(f"{statuses}; task {first}, then {again}", held)


def _calendar(rule: str, start: str) -> str:
    event = f"BEGIN:VEVENT\r\nUID:a\r\nDTSTART:{start}\r\nDURATION:PT1M\r\nRRULE:{rule}\r\nEND:VEVENT\r\n"
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\n{event}END:VCALENDAR\r\n"


def _set_calendar(scene: Scene, rule: str, start: str = "20200101T000000Z") -> httpx.Response:
    policy = {"training_policy": {"calendar": _calendar(rule, start)}}
    return scene.call("PATCH", "projects/attacker", json=policy)


@attack("forty calendars at once that never open", wanted="no error of ours", finding=HELD)
def set_calendars(scene: Scene) -> Found:
    def patch(number: int) -> int:
        return _set_calendar(scene, f"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;INTERVAL={number + 1}").status_code

    kept = _set_calendar(scene, "FREQ=WEEKLY")
    with ThreadPoolExecutor(40) as pool:
        statuses = list(pool.map(patch, range(40)))
    words = f"an honest one {kept.status_code}, then {sorted(set(statuses))}"
    return Found(words, kept.status_code == 200 and set(statuses) <= {200, 400, 429, 503})


@attack("thirty tests at once of a model server that never answers", wanted="no error of ours", finding=HELD)
def test_providers(scene: Scene) -> Found:
    number, asked = scene.made["silent"], {"model": "base"}
    with ThreadPoolExecutor(30) as pool:
        statuses = list(
            pool.map(lambda _: scene.call("POST", f"providers/{number}/test", json=asked).status_code, range(30))
        )
    return Found(str(sorted(set(statuses))), set(statuses) <= {200, 429, 503})


@attack(
    "calendars of every second and every minute, far ahead",
    wanted="400, for how often",
    finding="a calendar that costs more each day",
)
def set_seconds(scene: Scene) -> Found:
    found = [_set_calendar(scene, f"FREQ={often}", "20300101T000000Z") for often in ("SECONDLY", "MINUTELY")]
    words = f"{[one.status_code for one in found]} {found[0].text[-70:]}"
    return Found(words, all(one.status_code == 400 and "recur" in one.text for one in found))


@attack("somebody makes a project and puts others into it", wanted="they are asked", finding=OWNED)
def make_project(scene: Scene) -> Found:
    from apps.accounts.models import Member

    made = scene.call("POST", "projects", token=scene.viewer, json={"slug": "evil", "name": "Evil"}).status_code
    body = {"project": "evil", "username": "nina", "role": "manager"}
    put = scene.call("POST", "members", token=scene.viewer, json=body).status_code
    asked = scene.call("POST", "invitations", token=scene.viewer, json=body).status_code
    inside = Member.objects.filter(project__slug="evil", user__username="nina").count()
    words = f"made {made}, put in {put}, invited {asked}, inside: {inside}"
    return Found(words, made == 201 and asked == 201 and not inside)


@attack("an owner asks which user names there are", wanted="one answer for all of them", finding=OWNED)
def ask_for_names(scene: Scene) -> Found:
    def ask(path: str, username: str, role: str) -> tuple[int, str]:
        body = {"project": "attacker", "username": username, "role": role}
        found = scene.call("POST", path, json=body)
        return found.status_code, found.json().get("code", "")

    people = [ask("members", name, "viewer") for name in ("nina", "nobody-of-this-name")]
    invited = [ask("invitations", name, "viewer") for name in ("nina", "nobody-of-this-name")]
    agents = [ask("members", name, "agent") for name in ("nina", "neighbour-claw")]
    held = all(len(set(answers)) == 1 for answers in (people, invited, agents))
    return Found(f"{people[0]}, {invited[0]}, {agents[0]}" if held else f"{people}, {invited}, {agents}", held)


@attack("an owner uses the installation's model server, unasked", wanted="refused", finding=OWNED)
def use_shared(scene: Scene) -> Found:
    from apps.inference.models import Provider
    from tests.apps.gateway.running import make_provider

    if not Provider.objects.filter(name="the-house's").exists():
        make_provider(None, f"{scene.models}/plain/v1", name="the-house's", kind="custom")
    body = {
        "project": "attacker",
        "name": "on-the-house",
        "kind": "chat",
        "provider": "the-house's",
        "base_model": "base",
    }
    made = scene.call("POST", "workers", json=body).status_code
    time.sleep(2)
    status = scene.chat("on-the-house").status_code
    return Found(f"a worker on it: {made}, an answer: {status}", made >= 400 and status >= 400)


@attack("an owner asks for the whole installation's audit", wanted="nothing but its own", finding=OWNED)
def verify_all(scene: Scene) -> Found:
    from apps.audit.models import AuditEntry

    everything = AuditEntry.objects.count()
    found = scene.call("GET", "audit/verify")
    numbers = [value for value in found.json().values() if isinstance(value, int)]
    held = found.status_code in {200, 400, 403} and all(value < everything for value in numbers)
    return Found(f"{found.status_code}, {numbers} of {everything}", held)


@attack("a token of one day makes one of a year", wanted="it lives no longer", finding=OUTLIVED)
def outlive(scene: Scene) -> Found:
    scopes = ["tokens:write", "tokens:read", "tasks:read", "projects:read"]
    first = scene.call("POST", "tokens", json={"name": "a", "scopes": scopes, "expires_in_days": 1}).json()
    text = first.get("token", "")
    refused = scene.call(
        "POST", "tokens", token=text, json={"name": "b", "scopes": ["tasks:read"], "expires_in_days": 365}
    )
    child = scene.call("POST", "tokens", token=text, json={"name": "c", "scopes": ["tasks:read"]}).json()
    before = scene.call("GET", "tasks", token=child.get("token", "x")).status_code
    ended = scene.call("DELETE", f"tokens/{first.get('id')}").status_code
    after = scene.call("GET", "tasks", token=child.get("token", "x")).status_code
    held = refused.status_code == 403 and before == 200 and ended == 204 and after == 401
    return Found(f"a year: {refused.status_code}; its child {before}, without its parent {after}", held)


@attack(
    "a viewer changes their own password",
    wanted="it works; other sessions and tokens end",
    finding="nobody changes their own password, or sees their sessions",
)
def change_password(scene: Scene) -> Found:
    old, new = "victor-has-a-password", "quite-another-password-2"
    body = {"username": "victor", "password": old}
    mine = httpx.Client(
        base_url=scene.web.base_url, timeout=60, transport=httpx.HTTPTransport(local_address="127.0.0.7")
    )

    def sign_in() -> Heard:
        """By REST, from where nobody tried too often."""
        headers = "Content-Type: application/json"
        return ask(scene.web_port, "POST", "/api/v1/login", headers, body=json.dumps(body).encode(), source="127.0.0.8")

    token = sign_in().json.get("token", "")
    cookie = scene.cookie_of("victor")
    page = mine.get("/sign-in/")
    given = {"username": "victor", "password": old, "csrfmiddlewaretoken": mine.cookies.get("csrftoken", "")}
    mine.post(page.url, data=given, headers={"Referer": str(page.url)})
    seen = mine.get("/preferences/sign-in/").status_code
    sent = {"current": old, "new": new, "again": new, "csrfmiddlewaretoken": mine.cookies.get("csrftoken", "")}
    changed = mine.post("/preferences/sign-in/password/", data=sent, headers={"Referer": str(page.url)}).status_code
    here = mine.get("/preferences/").status_code
    there = scene.web.get("/preferences/", headers={"Cookie": cookie}, follow_redirects=False).status_code
    lives = scene.call("GET", "whoami", token=token or "x").status_code
    old_way = sign_in().status
    words = f"listed {seen}, changed {changed}; here {here}, elsewhere {there}, token {lives}, old password {old_way}"
    held = [seen, changed, here, there, lives, old_way] == [200, 302, 200, 302, 401, 401] and bool(token)
    return Found(words, held)


def _open_socket(scene: Scene, cookie: str, *, port: int | None = None) -> Any:
    from websockets.sync.client import connect
    from websockets.typing import Origin

    origin = Origin(f"http://127.0.0.1:{scene.web_port if port is None else port}")
    url = f"ws://127.0.0.1:{scene.web_port}/ws/live/"
    return connect(url, origin=origin, additional_headers={"Cookie": cookie}, open_timeout=30, max_size=None)


def _try_socket(scene: Scene, cookie: str, **given: Any) -> bool:
    from websockets.exceptions import InvalidStatus

    try:
        _open_socket(scene, cookie, **given).close()
    except InvalidStatus:
        return False
    return True


@attack("live sockets with one's own session, from other ports of this host", wanted="refused", finding=HEARD)
def open_foreign_sockets(scene: Scene) -> Found:
    cookie = scene.cookie_of("mallory")
    own = _try_socket(scene, cookie)
    foreign = [_try_socket(scene, cookie, port=port) for port in (9999, 31337, 1)]
    return Found(f"its own origin: {own}, others: {foreign}", own and not any(foreign))


@attack("sixty live sockets of one session", wanted="some are refused, the rest end with it", finding=HEARD)
def keep_sockets(scene: Scene) -> Found:
    from websockets.exceptions import ConnectionClosed

    from apps.accounts.browser_sessions import SessionStore

    cookie = scene.cookie_of("mallory")
    opened = [_open_socket(scene, cookie) for _ in range(60)]
    time.sleep(1)

    def is_closed(one: Any) -> bool:
        try:
            while True:
                one.recv(timeout=0.01)
        except TimeoutError:
            return False
        except ConnectionClosed:
            return True

    refused = sum(is_closed(one) for one in opened)
    SessionStore(cookie.partition("=")[2]).flush()
    left = wait_for(lambda: all(is_closed(one) for one in opened), most_s=30)
    for one in opened:
        one.close()
    return Found(f"{refused} of 60 refused; all closed after its end: {bool(left)}", refused > 0 and bool(left))


@attack("a viewer listens for what only others may read", wanted="nothing of tokens is heard", finding=HEARD)
def listen(scene: Scene) -> Found:
    socket_of = {name: _open_socket(scene, scene.cookie_of(name)) for name in ("victor", "mallory")}
    time.sleep(1)
    body = {"name": "overheard", "scopes": ["tasks:read"], "expires_in_days": 1, "project": "attacker"}
    made = scene.call("POST", "tokens", json=body).status_code
    heard = {}
    for name, live in socket_of.items():
        heard[name] = ""
        until = time.monotonic() + 5
        while time.monotonic() < until and "token.created" not in heard[name]:
            try:
                heard[name] += str(live.recv(timeout=0.5))
            except TimeoutError:
                continue
        live.close()
    owner, viewer = ("token." in heard[name] for name in ("mallory", "victor"))
    return Found(f"{made}; the owner hears of it: {owner}, the viewer: {viewer}", made == 201 and owner and not viewer)


@attack("a message of 10 MB to the live socket", wanted="it is closed", finding=HEARD, limit="socket_bytes")
def shout(scene: Scene) -> Found:
    from websockets.exceptions import ConnectionClosed

    live = _open_socket(scene, scene.cookie_of("mallory"))
    code = 0
    try:
        live.send("x" * 10_000_000)
        while True:
            live.recv(timeout=3)
    except TimeoutError:
        pass
    except ConnectionClosed as closed:
        code = closed.rcvd.code if closed.rcvd else -1
    live.close()
    return Found(f"closed with {code}" if code else "still open", code in {1009, -1})


@attack(
    "a webhook that asks to be left alone until the year 9999",
    wanted="its page comes, and it is tried again within a day",
    finding="a webhook's answer breaks pages for good",
    limit="retry_after_s",
    needs=WORK,
)
def wait_for_ever(scene: Scene) -> Found:
    from datetime import timedelta

    from django.utils import timezone

    from apps.accounts.models import Project, User
    from apps.webhooks.models import Delivery, Webhook
    from apps.webhooks.services import create_webhook

    project, owner = Project.objects.get(slug="attacker"), User.objects.get(username="mallory")
    hook, _ = create_webhook(project=project, url="https://hooks.example.com/late", by=owner)
    Webhook.objects.filter(pk=hook.pk).update(url=f"{scene.models}/hook", allow_private=True)  # as an admin may allow
    _submit(scene, "echo")
    tried = Delivery.objects.filter(attempts__gte=1)
    is_tried = wait_for(tried.exists, most_s=120)
    late = tried.filter(next_at__gt=timezone.now() + timedelta(days=2)).exists()
    found = scene.call("GET", f"deliveries?webhook={hook.pk}").status_code
    return Found(f"tried: {is_tried}, its list {found}, beyond a day: {late}", is_tried and found == 200 and not late)


@attack(
    "tests of model servers at names known inside, and unknown ones",
    wanted="one answer for both",
    finding="the test of a model server tells which names are known inside",
)
def ask_for_hosts(scene: Scene) -> Found:
    told = []
    for place, host in enumerate((socket.gethostname(), "ip6-loopback", "no-such-name-inside")):
        body = {"project": "attacker", "name": f"asked-{place}", "kind": "custom", "base_url": f"http://{host}:9/v1"}
        made = scene.call("POST", "providers", json=body)
        if made.status_code != 201:
            told.append(f"{made.status_code} {made.text}".replace(host, "it"))
            continue
        found = scene.call("POST", f"providers/{made.json()['id']}/test", json={"model": "base"}).json()
        told.append(str([found["fault"], found["words"]]).replace(host, "it"))
    return Found(told[0][:100] if len(set(told)) == 1 else " | ".join(told)[:300], len(set(told)) == 1)
