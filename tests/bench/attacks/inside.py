"""With what one process of the box has, and no more."""

import secrets

from tests.bench.attacks.scene import Found, Scene, attack


@attack("the application's own database role", wanted="no superuser")
def be_superuser(scene: Scene) -> Found:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper OR rolbypassrls OR rolcreaterole FROM pg_roles WHERE rolname = current_user")
        (is_super,) = cursor.fetchone() or (True,)
    return Found(f"superuser: {is_super}", not is_super)


@attack("the training box's own broker address", wanted="it may not write other queues", needs_all=True)
def write_queues(scene: Scene) -> Found:
    from pathlib import Path

    import redis

    words = Path(f"/proc/{scene.stack.pid_of('gpu')}/environ").read_bytes().split(b"\0")
    url = next(word for word in words if word.startswith(b"TENTALIS_REDIS_URL=")).partition(b"=")[2].decode()
    name = f"tentalis:attack-{secrets.token_hex(4)}"
    with redis.Redis.from_url(url) as client:
        try:
            client.lpush(name, "x")
            client.delete(name)
        except redis.exceptions.NoPermissionError:
            return Found("refused", True)
    return Found("it writes what it likes", False)


@attack("a live session out of a dump", wanted="it opens nothing")
def use_session(scene: Scene) -> Found:
    from django.conf import settings
    from django.db import connection
    from django.test import Client

    from apps.accounts.models import User

    client = Client()
    client.force_login(User.objects.get(username=scene.made["owner"]))
    keys: list[str] = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            if table != "django_session" and not (table.startswith("accounts_") and "session" in table):
                continue
            cursor.execute(f'SELECT * FROM "{table}"')
            keys += [value for row in cursor.fetchall() for value in row if isinstance(value, str) and len(value) < 200]
    opened = 0
    for key in keys:
        cookie = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={key}"}
        opened += scene.web.get("/", headers=cookie, follow_redirects=False).status_code == 200
    return Found(f"{opened} of {len(keys)} open a page", not opened)


@attack("the engine without a key", wanted="401 or 403", needs_all=True)
def load_adapter(scene: Scene) -> Found:
    import httpx

    url = scene.stack.state().addresses["engine_url"]
    status = httpx.post(
        f"{url}/v1/load_lora_adapter", json={"lora_name": "x", "lora_path": "/nowhere"}, timeout=30
    ).status_code
    return Found(str(status), status in {401, 403})
