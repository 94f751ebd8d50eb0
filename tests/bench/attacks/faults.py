"""Trouble of the machine that nobody asked for: what is said then, and what is there afterwards.

These run on a box of their own, whose home is a small file system in memory where mounting is allowed.
"""

import errno
import os
import signal
import struct
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.bench.attacks.scene import MIB, Found, Scene, attack, wait_for
from tests.edges.raw_connection import ask

LARGEST_HOME = 2**31
TROUBLE = "trouble of the database is an error of ours"


@dataclass
class Heard:
    """What was answered in trouble.

    Args:
        wrong: answers that are neither a success nor a 503 that says when to ask again and nothing of ours.
        kept: tasks that were acknowledged.
    """

    count: int = 0
    away: int = 0
    wrong: list[str] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)

    def note(self, found: httpx.Response, home: Path) -> None:
        self.count += 1
        if found.status_code == 503 and "Retry-After" in found.headers and str(home) not in found.text:
            self.away += 1
        elif found.status_code not in {200, 201}:
            self.wrong.append(f"{found.status_code} {found.text[:60]}")
        elif found.status_code == 201:
            self.kept.append(found.json()["id"])


def _ask_on(scene: Scene, heard: Heard, until: Callable[[], bool]) -> None:
    """Submit, read and chat, in turn."""
    home = scene.stack.home.root
    body = {"project": "attacker", "prompt": "x", "environment": "chat", "worker": "echo"}
    while not until():
        doors: tuple[Callable[[], httpx.Response], ...] = (
            lambda: scene.call("POST", "tasks", json=body),
            lambda: scene.call("GET", "tasks?limit=5"),
            lambda: scene.chat("plain-helper"),
        )
        for ask_once in doors:
            try:
                heard.note(ask_once(), home)
            except httpx.HTTPError as error:
                heard.wrong.append(type(error).__name__)
        time.sleep(0.1)


def _count_lost(kept: list[int]) -> int:
    from django.db import connections

    from apps.tasks.models import Task

    connections.close_all()
    return len(set(kept) - set(Task.objects.filter(pk__in=kept).values_list("pk", flat=True)))


@attack(
    "Postgres is killed while everybody asks",
    wanted="503 and when to ask again, and nothing lost",
    finding=TROUBLE,
    is_fault=True,
    kills=("postgres",),
)
def kill_postgres(scene: Scene) -> Found:
    heard, until = Heard(), time.monotonic() + 12
    scene.stack.signal("postgres", signal.SIGKILL)
    _ask_on(scene, heard, lambda: time.monotonic() > until)
    back = wait_for(lambda: scene.call("GET", "tasks?limit=5").status_code == 200, most_s=30)
    lost = _count_lost(heard.kept) if back else -1
    words = f"{heard.count} asked, {heard.away} told 503, {len(heard.wrong)} else {heard.wrong[:1]}, {lost} lost"
    return Found(words, not heard.wrong and bool(back) and lost == 0 and heard.count > 0)


@attack(
    "the disk is full while everybody asks",
    wanted="503 at both doors, readiness says so, nothing lost, back in 30 s",
    finding="the gateway is ready on a full disk",
    is_fault=True,
)
def fill_disk(scene: Scene) -> Found:
    home = scene.stack.home.root
    disk = os.statvfs(home)
    if disk.f_blocks * disk.f_frsize > LARGEST_HOME:
        return Found("skipped: no small file system could be mounted here", None)
    heard, filler, until = Heard(), home / "artifacts" / "filler", time.monotonic() + 15
    ready: list[int] = []
    with filler.open("wb", buffering=0) as file:

        def fill() -> bool:
            try:
                while True:
                    file.write(b"\0" * MIB)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            ready.append(ask(scene.gateway_port, "GET", "/readyz").status)
            return time.monotonic() > until

        _ask_on(scene, heard, fill)
    filler.unlink()

    def is_back() -> bool:
        sent = scene.call(
            "POST", "tasks", json={"project": "attacker", "prompt": "x", "environment": "chat", "worker": "echo"}
        )
        is_ready = ask(scene.gateway_port, "GET", "/readyz").status == 200
        return sent.status_code == 201 and is_ready and scene.chat("plain-helper").status_code == 200

    back = wait_for(is_back, most_s=30)
    lost = _count_lost(heard.kept) if back else -1
    words = (
        f"{heard.count} asked, {heard.away} told 503, {len(heard.wrong)} else {heard.wrong[:1]}; readiness "
        f"{sorted(set(ready))}, back: {bool(back)}, {lost} of {len(heard.kept)} lost"
    )
    return Found(words, not heard.wrong and bool(back) and lost == 0 and set(ready) == {503} and heard.away > 0)


@attack(
    "300 MB of records that an earlier gateway left and nobody can read",
    wanted="at most 268 MB are kept aside, and the gateway stays ready",
    limit="set_aside_bytes",
    is_fault=True,
)
def leave_records(scene: Scene) -> Found:
    """As a crash of an older version leaves them; its spool is adopted within a minute."""
    root = scene.stack.home.root / "spool"
    left = root / "gateway-00000000000000000000000000000000"
    left.mkdir()
    body = b"\xff" * 30 * MIB
    frame = struct.pack("<II", len(body), zlib.crc32(body)) + body
    for number in range(10):
        (left / f"{number:012}.spool").write_bytes(frame)
    wait_for(lambda: not left.exists(), most_s=60)
    kept = (root / "rejected").stat().st_size if (root / "rejected").exists() else 0
    ready = ask(scene.gateway_port, "GET", "/readyz").status
    return Found(f"{kept // MIB} MiB kept, readiness {ready}", 0 < kept <= 256 * MIB and ready == 200)
