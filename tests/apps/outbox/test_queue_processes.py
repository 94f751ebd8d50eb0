"""What queue processes keep from message to message, and what they take up when they start."""

import subprocess
import sys
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import OperationalError
from django.utils import timezone
from pytest_django import Settings

from apps.outbox import services, watchdog
from apps.outbox.links import HOST
from apps.outbox.models import Segment

SETTLED = """
import gc
from tentalis.garbage import YOUNG, settle_garbage
settle_garbage()
kept, young, *rest = gc.get_freeze_count(), *gc.get_threshold()
assert kept > 1000 and young == YOUNG and rest == [10, 10], (kept, young, rest)
"""


def test_what_is_loaded_at_the_start_is_searched_no_more() -> None:
    subprocess.run([sys.executable, "-c", SETTLED], check=True, timeout=60)


def test_a_queue_process_that_starts_takes_up_what_died_on_its_host(
    db: None, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.TENTALIS = settings.TENTALIS | {"LEASE_SECONDS": 3_600.0}
    services.start("work", subject_id=7, project_id=None)
    held = Segment.objects.get()
    assert services.claim_links([held.pk], 0, owner=f"{HOST}:0:0") is not None

    def sleep(_: float) -> None:
        raise SystemExit

    monkeypatch.setattr(watchdog, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    monkeypatch.setattr(watchdog, "close_old_connections", lambda: None)  # the test's own
    with pytest.raises(SystemExit):
        watchdog._watch(["workers"], 1)
    held.refresh_from_db()
    assert (held.fence, held.errors[0]["type"]) == (None, "ProcessDied")


def test_work_that_nobody_takes_is_seen_whatever_keeps_it_from_freeing_what_the_dead_held(
    db: None, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.TENTALIS = settings.TENTALIS | {"WATCHDOG_SECONDS": 0}
    services.start("work", subject_id=7, project_id=None)
    Segment.objects.update(published_at=timezone.now() - timedelta(hours=1), queue="workers")

    def fail(host: str) -> int:
        raise OperationalError("permission denied")

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(watchdog, "free_leases_of_dead", fail)
    monkeypatch.setattr(watchdog, "os", SimpleNamespace(_exit=leave))
    monkeypatch.setattr(watchdog, "time", SimpleNamespace(monotonic=time.monotonic, sleep=leave))
    monkeypatch.setattr(watchdog, "close_old_connections", lambda: None)  # the test's own
    with pytest.raises(SystemExit) as ended:
        watchdog._watch(["workers"], 1)
    assert ended.value.code == watchdog.EXIT_CODE
