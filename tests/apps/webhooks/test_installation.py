"""Alarms reach the address that the settings name: at their beginning and end, once each, and again if not heard."""

import json
import time
from pathlib import Path

import pytest
from django.db.models.functions import Now

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.audit.services import record
from apps.base.errors import NotAllowedError
from apps.operations.rules import Trouble
from apps.operations.services import CALM_S, Watch
from apps.webhooks.enqueueing import enqueue_all
from apps.webhooks.installation import keep_alarm_webhook
from apps.webhooks.models import Delivery, Webhook
from apps.webhooks.posting import Poster
from apps.webhooks.sending import SCHEDULE_S, Reply, claim, drain, note
from apps.webhooks.services import change_webhook, send_test
from tentalis.core.alarms import Rule
from tentalis.core.webhooks import verify_webhook
from tentalis.env import EnvironmentVariableError, read_environment
from tests.apps.webhooks.conftest import Make
from tests.apps.webhooks.receiver import Receiver

SECRET = "whsec_" + "A" * 43 + "="
TROUBLE = Trouble(Rule("queue.old", 0, lambda now: iter(())), "work", "work waits")


def send_all(poster: Poster) -> None:
    enqueue_all()
    while (claimed := claim()) is not None:
        drain(claimed, poster)


def test_an_alarm_and_its_end_are_told_once_each_and_nothing_else_is(
    shop: Project, poster: Poster, receiver: Receiver, log: Path
) -> None:
    keep_alarm_webhook(url=receiver.url + "/ok", secret=SECRET)
    watch = Watch()
    for now_s in map(float, range(0, 300, 15)):
        keep_alarm_webhook(url=receiver.url + "/ok", secret=SECRET)  # as the timetable does
        watch.look([TROUBLE], now_s=now_s)
        record("task.done", subject=shop, by="test", project_id=shop.pk)
        record("backup.made", by="test")
        send_all(poster)
    assert [json.loads(request["body"])["type"] for request in receiver.read()] == ["alarm.opened"]
    for now_s in (300.0, 300 + CALM_S, 315 + CALM_S):
        watch.look([], now_s=now_s)
        send_all(poster)
    first, last = (json.loads(request["body"]) for request in receiver.read())
    assert (first["type"], last["type"]) == ("alarm.opened", "alarm.closed")
    assert first["data"]["project"] is None
    assert first["data"]["details"] == {"rule": "queue.old", "subject": "work", "words": "work waits"}
    request = receiver.read()[0]
    verify_webhook(headers=request["headers"], body=request["body"].encode(), secret=SECRET, now_s=time.time())


def test_an_alarm_nobody_heard_is_told_again_and_its_address_is_never_switched_off(
    transactional_db: None, poster: Poster, receiver: Receiver, log: Path
) -> None:
    keep_alarm_webhook(url=receiver.url + "/ok", secret="")
    Watch().look([TROUBLE], now_s=0)
    enqueue_all()
    for status in (0, 503, 410):
        claimed = claim()
        assert claimed is not None
        assert note(claimed, Delivery.objects.get(), Reply(status), took_ms=1)
        Webhook.objects.update(failing_since="2020-01-01T00:00Z", paused_until=Now(), fence=None, lease_until=None)
        assert Delivery.objects.get().state == "pending"
        Delivery.objects.update(next_at=Now())
    assert len(SCHEDULE_S) > 3
    send_all(poster)
    assert (Delivery.objects.get().state, Webhook.objects.get().is_active) == ("delivered", True)
    assert len(receiver.read()) == 1


def test_settings_alone_change_where_alarms_go(make: Make, owner: User) -> None:
    make("/ok")
    Watch().look([TROUBLE], now_s=0)
    keep_alarm_webhook(url="https://one.example.com/secret", secret=SECRET)
    enqueue_all()
    row = Webhook.objects.get(project=None)
    assert not row.deliveries.exists()  # what was open before is on the console's line; it is told from now on
    for deed in (lambda: send_test(webhook=row, by=owner), lambda: change_webhook(webhook=row, by=owner, name="x")):
        with pytest.raises(NotAllowedError, match="TENTALIS_ALARM_WEBHOOK_URL"):
            deed()
    keep_alarm_webhook(url="https://two.example.com/secret", secret="")
    assert Webhook.objects.get(project=None).url == "https://two.example.com/secret"
    keep_alarm_webhook(url="", secret="")
    assert Webhook.objects.count() == 1
    own = AuditEntry.objects.filter(kind__startswith="webhook.", project_id=None).order_by("pk")
    assert [entry.kind for entry in own] == ["webhook.created", "webhook.changed", "webhook.deleted"]
    assert "secret" not in json.dumps([entry.payload for entry in own])


def test_a_secret_that_signs_nothing_stops_the_start() -> None:
    for text in ("whsec_AAAA", "secret!"):
        with pytest.raises(EnvironmentVariableError, match="TENTALIS_ALARM_WEBHOOK_SECRET"):
            read_environment({"TENTALIS_ALARM_WEBHOOK_SECRET": text})
    assert read_environment({"TENTALIS_ALARM_WEBHOOK_SECRET": SECRET[6:]})["ALARM_WEBHOOK_SECRET"] == SECRET
