"""With what one process of the box has, and no more."""

import hashlib
import json
import secrets
import time
from typing import Any

from tests.bench.attacks.scene import WORK, Found, Scene, attack, wait_for


@attack(
    "the application's own database role",
    wanted="no superuser; the audit stays as it is, nothing is run",
    finding="the application's database role may do everything",
)
def be_superuser(scene: Scene) -> Found:
    from django.db import connection
    from django.db.utils import Error

    tries = {
        "superuser": "DO $$ BEGIN IF NOT (SELECT rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb FROM pg_roles"
        " WHERE rolname = current_user) THEN RAISE 'no'; END IF; END $$",
        "triggers off": "SET session_replication_role = replica",
        "audit changed": "UPDATE audit_auditentry SET kind = kind",
        "audit deleted": "DELETE FROM audit_auditentry",
        "a program run": "COPY (SELECT 1) TO PROGRAM 'true'",
        "a file read": "SELECT pg_read_file('/etc/passwd')",
        "a table dropped": "DROP TABLE audit_auditentry",
    }
    done = []
    for words, statement in tries.items():
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
        except Error:
            continue
        done.append(words)
    return Found(", ".join(done) or f"{len(tries)} tries refused", not done)


def _open_broker(scene: Scene) -> Any:
    """Redis, as the training box sees it."""
    import redis

    from tentalis.platform import redis_users
    from tentalis.platform.config import load_config

    password = redis_users.password_of("box", load_config(scene.stack.home).secrets.redis_password)
    return redis.Redis.from_url(redis_users.url_of("box", password, scene.stack.state().addresses["redis_url"]))


@attack(
    "the training box's own broker address",
    wanted="it writes no queue of others, deletes no counter, ends no process",
    finding="the training box's broker address opens everything",
)
def write_queues(scene: Scene) -> Found:
    import redis
    from django.conf import settings

    prefix = settings.CELERY_BROKER_TRANSPORT_OPTIONS["global_keyprefix"]
    shutdown = json.dumps({"method": "shutdown", "arguments": {}, "destination": None})
    tries: dict[str, tuple[Any, ...]] = {
        "a queue of others": ("LPUSH", f"{prefix}control", "x"),
        "any list": ("LPUSH", f"tentalis:attack-{secrets.token_hex(4)}", "x"),
        "all names": ("KEYS", "*"),
        "remote control": ("PUBLISH", f"{prefix}/0.celery.pidbox", shutdown),
        "remote control, plainly": ("PUBLISH", "/0.celery.pidbox", shutdown),
        "counters": ("DEL", f"{prefix}throttle"),
        "everything deleted": ("FLUSHALL",),
        "its settings": ("CONFIG", "GET", "*"),
        "its users": ("ACL", "LIST"),
    }
    done = []
    with _open_broker(scene) as client:
        client.ping()
        for words, command in tries.items():
            try:
                client.execute_command(*command)
            except redis.exceptions.NoPermissionError:
                continue
            done.append(words)
    return Found(", ".join(done) or f"{len(tries)} tries refused", not done)


def _make_run(scene: Scene) -> tuple[Any, Any]:
    """A run of the attacker's that its box was sent; the run and its spec."""
    from django.conf import settings
    from django.db.models.functions import Now

    from apps.accounts.models import Project
    from apps.rollouts.models import Batch
    from apps.training import services
    from apps.training.models import TrainingRun
    from apps.workers.models import Worker
    from tests.apps.training.boxes import send_out

    project = Project.objects.get(pk=scene.made["project"])
    worker = Worker.objects.get(project=project, name="echo")
    number = Batch.objects.count() + 1
    batch = Batch.objects.create(project=project, worker=worker, number=number, target_tasks=1, state="closed")
    run = services.queue_run(batch=batch, by="ledger")
    output = settings.ARTIFACTS / "runs" / f"attack-{run.pk}"
    output.mkdir(parents=True)
    spec = send_out(run, output)
    TrainingRun.objects.filter(pk=run.pk).update(heartbeat_at=Now())
    return run, spec


def _send_letter(scene: Scene, letter: bytes) -> None:
    from django.conf import settings

    from tentalis.core.letters import LETTER_BOX

    prefix = settings.CELERY_BROKER_TRANSPORT_OPTIONS["global_keyprefix"]
    with _open_broker(scene) as client:
        client.lpush(f"{prefix}{LETTER_BOX}", letter)


@attack(
    "a forged result of somebody's run, from the box's broker address",
    wanted="dropped, and the audit hears of it",
    finding="the training box's broker address opens everything",
    needs=WORK,
)
def forge_result(scene: Scene) -> Found:
    from apps.audit.models import AuditEntry
    from tentalis.core.contracts import Outcome, TrainResult
    from tentalis.core.letters import Letter

    run, _ = _make_run(scene)
    result = TrainResult(
        run_id=run.pk, attempt=1, outcome=Outcome.FAILED, error_type="OSError", error_message="forged by the box"
    )
    letter = Letter.write("result", dict(result.to_json()), key="0" * 64, run_id=run.pk, attempt=1, number=1)
    _send_letter(scene, json.dumps(letter.to_json()).encode())
    heard = wait_for(lambda: AuditEntry.objects.filter(kind="letter.refused").exists(), most_s=20)
    run.refresh_from_db()
    return Found(f"audited: {heard}, the run: {run.state} {run.failure[:30]}", bool(heard) and run.failure == "")


@attack(
    "a box's signed result whose manifest is odd",
    wanted="its run ends, and says why",
    finding="a box's odd manifest is never settled",
    needs=WORK,
)
def send_odd_manifest(scene: Scene) -> Found:
    from tentalis.core.contracts import Outcome, TrainResult
    from tests.apps.training.boxes import write_letter

    found = []
    for content in (b'{"files": ["a"], "schema": "tentalis.adapter-manifest/1"}', b"[" * 100_000, b"null"):
        run, spec = _make_run(scene)
        directory = _path_of(spec.output_uri) / "adapter"
        directory.mkdir()
        (directory / "manifest.json").write_bytes(content)
        result = TrainResult(
            run_id=run.pk,
            attempt=1,
            outcome=Outcome.DONE,
            adapter_uri=directory.as_uri(),
            sha256=hashlib.sha256(content).hexdigest(),
        )
        _send_letter(scene, write_letter(spec, "result", dict(json.loads(json.dumps(result.to_json())))))
        found.append(run)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for run in found:
            run.refresh_from_db()
        if all(run.state == "failed" for run in found):
            break
        time.sleep(0.2)
    states = [run.state for run in found]
    return Found(f"{states}: {found[0].failure[:60]}", all(run.state == "failed" and run.failure for run in found))


def _path_of(uri: str) -> Any:
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    return Path(unquote(urlsplit(uri).path))


@attack("a live session out of a dump", wanted="it opens nothing", finding="a dump holds live sessions")
def use_session(scene: Scene) -> Found:
    from django.conf import settings
    from django.db import connection

    cookie = scene.cookie_of("mallory")
    own = scene.web.get("/preferences/", headers={"Cookie": cookie}, follow_redirects=False).status_code
    texts: list[str] = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            if "session" not in table or not table.startswith(("django_", "accounts_")):
                continue
            cursor.execute(f'SELECT * FROM "{table}"')
            texts += [value for row in cursor.fetchall() for value in row if isinstance(value, str) and value]
    opened = 0
    for text in texts:
        given = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={text[:4000]}"}
        if text.isascii() and text.isprintable():
            opened += scene.web.get("/preferences/", headers=given, follow_redirects=False).status_code == 200
    held = own == 200 and bool(texts) and not opened
    return Found(f"its own cookie {own}; {opened} of {len(texts)} open a page", held)


@attack(
    "the engine without a key: load, unload, ask",
    wanted="401 or 403",
    finding="the engine obeys whoever reaches it",
    needs=("engine",),
)
def load_adapter(scene: Scene) -> Found:
    import httpx

    url = scene.stack.state().addresses["engine_url"]
    bodies = {
        "/v1/load_lora_adapter": {"lora_name": "x", "lora_path": "/nowhere"},
        "/v1/unload_lora_adapter": {"lora_name": "x"},
        "/v1/chat/completions": {"model": "desk", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1},
    }
    statuses = [httpx.post(f"{url}{path}", json=body, timeout=30).status_code for path, body in bodies.items()]
    return Found(str(statuses), set(statuses) <= {401, 403})
