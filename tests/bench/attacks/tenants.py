"""With an account: what one tenant, or one agent of it, tries on others."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.bench.attacks.scene import CANARY, Found, Scene, attack

MIB = 2**20


def wait_for(find: Any, *, most_s: float = 30) -> Any:
    """What it finds, or what it found last."""
    until = time.monotonic() + most_s
    while not (found := find()) and time.monotonic() < until:
        time.sleep(0.2)
    return found


@attack("a model server that answers 150 MB", wanted="502, less than 400 MB more", limit="gateway_answer_bytes")
def answer_large(scene: Scene) -> Found:
    return _answer(scene, "large-helper")


@attack("a model server that answers 200 MB, compressed", wanted="502, less than 400 MB more")
def answer_squeezed(scene: Scene) -> Found:
    return _answer(scene, "squeezed-helper")


def _answer(scene: Scene, model: str) -> Found:
    before = scene.peak_bytes("gateway")
    status = scene.chat(model).status_code
    more = (scene.peak_bytes("gateway") - before) // MIB
    return Found(f"{status}, {more} MB more", status == 502 and more < 400)


@attack("a model's name with a line end in it", wanted="502")
def name_a_model(scene: Scene) -> Found:
    found = scene.chat("named-helper")
    return Found(f"{found.status_code}", found.status_code == 502 and "x-evil" not in found.headers)


@attack("twenty requests at once on a budget of three tokens", wanted="at most two answered")
def overshoot(scene: Scene) -> Found:
    with ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(lambda _: scene.chat("slow-helper", token=scene.slow_token).status_code, range(20)))
    return Found(f"{statuses.count(200)} answered", 1 <= statuses.count(200) <= 2)


@attack("another agent of the project reads one's conversation", wanted="404")
def read_traces(scene: Scene) -> Found:
    scene.chat("plain-helper", session="private")

    def read(token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return scene.gateway.get("/sessions/private/traces", headers=headers).status_code

    own = wait_for(lambda: read(scene.token) == 200)
    status = read(scene.other_agent)
    return Found(f"its own: {own}, another's: {status}", bool(own) and status == 404)


@attack("another agent of the project speaks in one's conversation", wanted="one's own turns stay as they are")
def teach(scene: Scene) -> Found:
    scene.chat("plain-helper", session="taught")
    own = {"Authorization": f"Bearer {scene.token}"}
    wait_for(lambda: scene.gateway.get("/sessions/taught/traces", headers=own).status_code == 200)
    poison = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "fine"},
        {"role": "user", "content": "No, that is wrong. It should be POISON."},
    ]
    scene.chat("plain-helper", token=scene.other_agent, session="taught", messages=poison)
    time.sleep(2)
    text = scene.gateway.get("/sessions/taught/traces", headers=own).text
    return Found("poisoned" if "POISON" in text else "untouched", "POISON" not in text)


@attack("one word pasted 4,000 times, then a remark on the answer", wanted="answered, nobody waits")
def paste(scene: Scene) -> Found:
    message = [{"role": "user", "content": "password" * 4_000}]
    scene.chat("plain-helper", session="pasted", messages=message)
    sessions = wait_for(lambda: scene.call("GET", "sessions?limit=50", token=scene.token).json().get("results"))
    number = next((row["id"] for row in sessions or [] if "pasted" in str(row)), None)
    if number is None:
        return Found("its session is not listed", False)
    began = time.monotonic()
    found = scene.call("POST", f"sessions/{number}/feedback", token=scene.token, json={"score": 0})
    took_s = time.monotonic() - began
    return Found(f"{found.status_code} after {took_s:.1f} s", found.status_code in {200, 201} and took_s < 10)


@attack("an attempt whose steps are brackets, and its page", wanted="the page comes")
def draw_brackets(scene: Scene) -> Found:
    from django.conf import settings
    from django.test import Client

    from apps.accounts.models import User

    steps = [{"text": "[" * 16_000} for _ in range(20)]
    body = {"task": scene.made["task"], "steps": steps, "answer": "["}
    sent = scene.call("POST", "attempts", token=scene.token, json=body)
    client = Client()
    client.force_login(User.objects.get(username=scene.made["owner"]))
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    began = time.monotonic()
    page = scene.web.get(
        f"/p/attacker/tasks/{scene.made['task']}/", headers={"Cookie": f"{settings.SESSION_COOKIE_NAME}={cookie}"}
    )
    took_s = time.monotonic() - began
    words = f"sent {sent.status_code}, page {page.status_code} after {took_s:.1f} s, {len(page.content) // 1000:,} kB"
    return Found(words, sent.status_code in {201, 400} and page.status_code == 200 and took_s < 10)


@attack("nine tasks on a model server that never answers", wanted="a neighbour's task is done in 60 s", needs_all=True)
def starve(scene: Scene) -> Found:
    sent = [
        scene.call(
            "POST",
            "tasks",
            json={"project": "attacker", "prompt": "x", "environment": "chat", "worker": "silent-helper"},
        ).status_code
        for _ in range(9)
    ]
    time.sleep(2)
    body = {"project": "neighbour", "prompt": CANARY, "environment": "chat", "worker": "echo"}
    token = scene.made["neighbour_owner"]
    made = scene.untapped.post("/api/v1/tasks", json=body, headers={"Authorization": f"Bearer {token}"}).json()
    began = time.monotonic()

    def has_moved() -> bool:
        from apps.tasks.models import Task

        return Task.objects.get(pk=made["id"]).state not in {"queued", "working"}

    done = wait_for(has_moved, most_s=60)
    return Found(f"{sent.count(201)} sent; the neighbour's after {time.monotonic() - began:.0f} s", bool(done))


@attack("forgetting everybody whose name holds an e", wanted="refused, or nothing of a neighbour's goes")
def forget(scene: Scene) -> Found:
    token = scene.made["neighbour_owner"]
    body = {"project": "neighbour", "prompt": "be there once", "environment": "chat", "worker": "echo"}
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "the-same-key"}
    first = scene.untapped.post("/api/v1/tasks", json=body, headers=headers).json()
    status = scene.call("POST", "projects/attacker/forget", json={"end_user": "e", "dry_run": False}).status_code
    again = scene.untapped.post("/api/v1/tasks", json=body, headers=headers).json()
    return Found(f"{status}; task {first.get('id')}, then {again.get('id')}", first.get("id") == again.get("id"))


NEVER = "DTSTART:20200101T000000Z\nRRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"
SECONDLY = "DTSTART:20300101T000000Z\nRRULE:FREQ=SECONDLY"


@attack("twenty calendars at once that never open", wanted="no 500")
def set_calendars(scene: Scene) -> Found:
    def patch(number: int) -> int:
        return _set_calendar(scene, f"{NEVER};INTERVAL={number + 1}")

    with ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(patch, range(20)))
    return Found(
        str(sorted(set(statuses))), max(statuses) < 500 or statuses.count(503) == sum(s >= 500 for s in statuses)
    )


@attack("a calendar of every second", wanted="400")
def set_seconds(scene: Scene) -> Found:
    status = _set_calendar(scene, SECONDLY)
    return Found(str(status), status == 400)


def _set_calendar(scene: Scene, rule: str) -> int:
    return scene.call("PATCH", "projects/attacker", json={"training_policy": {"calendar": rule}}).status_code


@attack("a viewer makes a project and puts others into it", wanted="refused, or they are asked")
def make_project(scene: Scene) -> Found:
    from apps.accounts.models import Member

    made = scene.call("POST", "projects", token=scene.viewer, json={"slug": "evil", "name": "Evil"}).status_code
    scene.call("POST", "members", token=scene.viewer, json={"project": "evil", "username": "nina", "role": "manager"})
    inside = Member.objects.filter(project__slug="evil", user__username="nina").count()
    return Found(f"made: {made}, put in: {inside}", not inside)


@attack("a token of one day makes one of a year", wanted="it lives no longer")
def outlive(scene: Scene) -> Found:
    first = scene.call(
        "POST",
        "tokens",
        json={"name": "a", "scopes": ["tokens:write", "tasks:read", "projects:read"], "expires_in_days": 1},
    )
    text = first.json().get("token", "")
    second = scene.call(
        "POST", "tokens", token=text, json={"name": "b", "scopes": ["tasks:read"], "expires_in_days": 365}
    )
    if first.status_code != 201 or second.status_code != 201:
        words = second.json().get("detail", "")[:60]
        return Found(f"{first.status_code}, {second.status_code} {words}", first.status_code == 201)
    ends = [found.json()["expires_at"] for found in (first, second)]
    return Found(f"{ends[0][:10]} and {ends[1][:10]}", ends[1] <= ends[0])


@attack("a webhook that asks to be left alone until the year 9999", wanted="its page comes", needs_all=True)
def wait_for_ever(scene: Scene) -> Found:
    from apps.accounts.models import Project, User
    from apps.webhooks.models import Delivery
    from apps.webhooks.services import create_webhook

    project, owner = Project.objects.get(slug="attacker"), User.objects.get(username=scene.made["owner"])
    create_webhook(project=project, url=f"{scene.models}/hook", by=owner, allow_private=True)
    body = {"project": "attacker", "prompt": "x", "environment": "chat", "worker": "echo"}
    scene.call("POST", "tasks", json=body)
    tried = wait_for(lambda: Delivery.objects.filter(attempts__gte=1).values_list("pk", flat=True).first(), most_s=20)
    found = scene.call("GET", "deliveries?project=attacker")
    return Found(f"tried: {bool(tried)}, {found.status_code}", bool(tried) and found.status_code == 200)
