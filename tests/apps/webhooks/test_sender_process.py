"""The process that sends is killed with -9 again and again, and the receiver goes away: nothing is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import pytest
from django.db import connection

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.audit.services import record
from apps.webhooks.models import Delivery, Webhook
from apps.webhooks.services import create_webhook
from tests.apps.webhooks.receiver import Receiver

ENTRIES = 240
KILLS = 3
PATIENCE_S = 90.0


def start_relay() -> "subprocess.Popen[bytes]":
    """The process of the timetable, on the database of this test."""
    parts = urlsplit(os.environ["TENTALIS_DATABASE_URL"])
    url = urlunsplit(parts._replace(path="/" + quote(str(connection.settings_dict["NAME"]))))
    hurried = {
        "TENTALIS_DATABASE_URL": url,
        "TENTALIS_WEBHOOK_TIMEOUT_SECONDS": "0.3",
        "TENTALIS_RETRY_BASE_SECONDS": "0.001",
        "DJANGO_SETTINGS_MODULE": "tentalis.settings.test",
    }
    return subprocess.Popen([sys.executable, "-m", "django", "relay"], env=os.environ | hurried)


def wait_until(is_so: Callable[[], bool], words: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until, words
        time.sleep(0.05)


def count_delivered(webhook: Webhook) -> int:
    return webhook.deliveries.filter(state=Delivery.State.DELIVERED).count()


@pytest.mark.broker
@pytest.mark.slow
def test_what_is_killed_and_what_goes_away_loses_nothing_and_doubles_carry_the_same_id(
    shop: Project, owner: User, tmp_path: Path
) -> None:
    receiver = Receiver(tmp_path / "log.jsonl")
    webhook, _ = create_webhook(project=shop, url=f"{receiver.url}/flaky", by=owner, allow_private=True)
    for number in range(ENTRIES):
        record("task.done", by="test", project_id=shop.pk, payload={"number": number})
    relay = start_relay()
    try:
        for kill in range(KILLS):
            goal = (kill + 1) * ENTRIES // (KILLS + 2)
            wait_until(lambda goal=goal: count_delivered(webhook) >= goal, f"{goal} messages are taken")  # type: ignore[misc]
            relay.send_signal(signal.SIGKILL)
            relay.wait()
            if kill == 1:
                receiver.stop()
            relay = start_relay()
            if kill == 1:
                wait_until(lambda: Webhook.objects.get(pk=webhook.pk).failures > 0, "nobody answers")
                receiver = Receiver(receiver.log, receiver.port)
        wait_until(lambda: count_delivered(webhook) == ENTRIES, "every message is taken")
    finally:
        relay.send_signal(signal.SIGKILL)
        relay.wait()
        receiver.stop()
    heard: dict[int, set[tuple[str, str]]] = {}
    for request in receiver.read():
        told = json.loads(request["body"])
        heard.setdefault(told["data"]["id"], set()).add((request["headers"]["webhook-id"], request["body"]))
    expected = set(AuditEntry.objects.filter(kind="task.done").values_list("pk", flat=True))
    assert set(heard) == expected
    assert all(len(versions) == 1 for versions in heard.values())
    assert Webhook.objects.get(pk=webhook.pk).is_active
