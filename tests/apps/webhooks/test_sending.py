"""What an address answers decides when it hears again; nothing is lost, and nothing goes where it may not."""

import base64
import hmac
import json
import time
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import override_settings
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.webhooks import sending
from apps.webhooks.models import Delivery, Webhook
from apps.webhooks.posting import Poster
from apps.webhooks.secrets import read_secrets
from apps.webhooks.sending import SCHEDULE_S, Reply, Sender, attempt, claim, drain, forget_old, note
from apps.webhooks.services import redeliver, redeliver_all, rotate_secret, send_test
from tentalis.core.webhooks import SignatureError, verify_webhook
from tests.apps.webhooks.conftest import Make
from tests.apps.webhooks.receiver import Receiver

HURRIED = override_settings(TENTALIS=settings.TENTALIS | {"WEBHOOK_TIMEOUT_SECONDS": 0.5})


def send_once(webhook: Webhook, by: User, poster: Any) -> Delivery:
    """A test message and one attempt at it."""
    delivery = send_test(webhook=webhook, by=by)
    claimed = claim()
    assert claimed is not None
    drain(claimed, poster)
    delivery.refresh_from_db()
    webhook.refresh_from_db()
    return delivery


def test_a_test_message_tells_nobody_which_names_are_known_inside(make: Make, owner: User, poster: Poster) -> None:
    said = set()
    for host in ("localhost", "no-such-host.invalid"):
        webhook = make("/ok")
        Webhook.objects.filter(pk=webhook.pk).update(url=f"http://{host}:1/", allow_private=False)
        webhook.refresh_from_db()
        delivery = send_once(webhook, owner, poster)
        said.add((delivery.status, delivery.tries[-1]["words"].replace(host, "HOST")))
    assert len(said) == 1, said
    assert "HOST has no public address that could be found" in str(said)


def test_a_message_arrives_signed_as_a_receiver_checks_it(
    make: Make, owner: User, poster: Poster, receiver: Receiver, log: Path
) -> None:
    webhook = make("/ok")
    delivery = send_once(webhook, owner, poster)
    assert (delivery.state, delivery.attempts, delivery.status) == ("delivered", 1, 204)
    (request,) = receiver.read()
    headers, body = request["headers"], request["body"].encode()
    (secret,) = read_secrets(webhook)
    verify_webhook(headers=headers, body=body, secret=secret, now_s=time.time())
    assert headers["webhook-id"] == f"msg_{delivery.event_id.hex}"
    assert headers["content-type"] == "application/json"
    assert json.loads(body)["type"] == "webhook.test"
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    forged = f"v1,{base64.b64encode(hmac.digest(b'', signed, 'sha256')).decode()}"
    for spoiled in (
        {"body": body + b" "}, {"now_s": time.time() + 301}, {"secret": "whsec_" + "A" * 44}, {"secret": "é"},
        {"secret": "", "headers": headers | {"webhook-signature": forged}},
        {"headers": headers | {"webhook-timestamp": "9" * 400}},
        {"headers": headers | {"webhook-timestamp": "9" * 5_000}},
        {"headers": headers | {"webhook-signature": "v1,é"}},
    ):  # fmt: skip
        with pytest.raises(SignatureError):
            verify_webhook(**({"headers": headers, "body": body, "secret": secret, "now_s": time.time()} | spoiled))


def test_addresses_take_turns(make: Make, owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0

    def take_all_the_time(webhook: Webhook, body: bytes, headers: dict[str, str]) -> Reply:
        nonlocal now
        now += sending.DRAIN_S
        return Reply(200)

    monkeypatch.setattr(sending, "time", SimpleNamespace(monotonic=lambda: now, time=time.time))
    hooks = [make("/ok") for _ in range(2)]
    for webhook in hooks:
        for _ in range(2):
            send_test(webhook=webhook, by=owner)
    heard: list[int] = []
    for _ in range(4):
        claimed = claim()
        assert claimed is not None
        assert drain(claimed, take_all_the_time) == 1
        heard.append(claimed.pk)
    assert heard == [hooks[0].pk, hooks[1].pk] * 2


def test_the_signature_is_the_one_of_the_standards_own_example() -> None:
    verify_webhook(
        headers={
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,bm9ldHUjKzFob2VudXRob2VodWUzMjRvdWVvdW9ldQo= "
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v2,MzJsNDk4MzI0K2VvdSMjMTEjQEBAQDEyMzMzMzEyMwo=",
        },
        body=b'{"test": 2432232314}',
        secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        now_s=1614265330,
    )


def test_while_a_secret_is_replaced_both_verify(
    make: Make, owner: User, poster: Poster, receiver: Receiver, log: Path
) -> None:
    webhook = make("/ok")
    (old,) = read_secrets(webhook)
    webhook, new = rotate_secret(webhook=webhook, by=owner)
    send_once(webhook, owner, poster)
    (request,) = receiver.read()
    for secret in (old, new):
        verify_webhook(headers=request["headers"], body=request["body"].encode(), secret=secret, now_s=time.time())
    Webhook.objects.filter(pk=webhook.pk).update(old_until=timezone.now() - timedelta(seconds=1))
    webhook.refresh_from_db()
    assert read_secrets(webhook) == [new]


@HURRIED
@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/500", 500, ""),
        ("/404", 404, ""),
        ("/redirect", 307, "redirects are not followed"),
        ("/slow", 0, "no answer within 0.5 s"),
        ("/dribble", 0, "no answer within 0.5 s"),
    ],
)
def test_a_failure_is_kept_and_tried_again_later(
    make: Make, owner: User, poster: Poster, receiver: Receiver, log: Path, path: str, status: int, words: str
) -> None:
    webhook = make(path)
    began = time.monotonic()
    delivery = send_once(webhook, owner, poster)
    assert time.monotonic() - began < 5
    assert (delivery.state, delivery.status, delivery.attempts) == ("pending", status, 1)
    assert words in delivery.tries[-1]["words"]
    wait_s = (delivery.next_at - timezone.now()).total_seconds()
    assert 3 < wait_s <= SCHEDULE_S[0] * 1.2
    assert webhook.failures == 1
    assert webhook.failing_since is not None
    assert webhook.paused_until > timezone.now() - timedelta(seconds=5)
    assert len([request for request in receiver.read() if request["path"] == "/ok"]) == 0
    assert claim() is None


def test_an_address_that_asks_to_be_left_alone_is(make: Make, owner: User, poster: Poster, log: Path) -> None:
    webhook = make("/429")
    delivery = send_once(webhook, owner, poster)
    for moment in (delivery.next_at, webhook.paused_until):
        assert 100 < (moment - timezone.now()).total_seconds() <= 120


def test_a_long_answer_is_cut_and_holds_no_nul(make: Make, owner: User, poster: Poster, log: Path) -> None:
    delivery = send_once(make("/long"), owner, poster)
    assert delivery.state == "delivered"
    assert delivery.tries[-1]["words"].startswith("<b>x")
    assert len(delivery.tries[-1]["words"]) == 300


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/ok", "http://localhost:{port}/ok"])
def test_a_private_address_is_refused_when_it_is_connected_to(
    make: Make, owner: User, poster: Poster, receiver: Receiver, log: Path, url: str
) -> None:
    """Even where it stands in the row: a name may lead elsewhere by then."""
    webhook = make("/ok")
    Webhook.objects.filter(pk=webhook.pk).update(allow_private=False, url=url.format(port=receiver.port))
    webhook.refresh_from_db()
    delivery = send_once(webhook, owner, poster)
    assert (delivery.state, delivery.status) == ("pending", 0)
    assert "private" in delivery.tries[-1]["words"]
    assert receiver.read() == []


def test_nobody_listening_is_a_failure_like_any(make: Make, owner: User, poster: Poster) -> None:
    webhook = make("/ok")
    Webhook.objects.filter(pk=webhook.pk).update(url="http://127.0.0.1:9/ok")
    delivery = send_once(webhook, owner, poster)
    assert (delivery.state, delivery.status) == ("pending", 0)
    assert delivery.tries[-1]["words"]


def test_one_that_wants_no_more_is_switched_off(make: Make, owner: User, poster: Poster, log: Path) -> None:
    webhook = make("/410")
    delivery = send_once(webhook, owner, poster)
    assert not webhook.is_active
    assert "410" in webhook.disabled_reason
    assert delivery.state == "pending"
    entry = AuditEntry.objects.get(kind="webhook.disabled")
    assert (entry.subject_id, entry.project_id, entry.actor) == (webhook.pk, webhook.project_id, "webhooks")


def test_one_that_fails_for_days_is_switched_off_and_one_success_forgets_them(
    make: Make, owner: User, poster: Poster, log: Path
) -> None:
    webhook = make("/500")
    send_once(webhook, owner, poster)
    Webhook.objects.filter(pk=webhook.pk).update(failing_since=timezone.now() - timedelta(days=4))
    send_once(webhook, owner, poster)
    assert webhook.is_active
    Webhook.objects.filter(pk=webhook.pk).update(url=webhook.url.replace("/500", "/ok"), paused_until=timezone.now())
    send_once(webhook, owner, poster)
    assert (webhook.failures, webhook.failing_since) == (0, None)
    past = timezone.now() - timedelta(days=5, minutes=1)
    Webhook.objects.filter(pk=webhook.pk).update(failing_since=past, url=webhook.url.replace("/ok", "/500"))
    send_once(webhook, owner, poster)
    assert not webhook.is_active


def test_after_the_last_attempt_it_is_given_up_and_can_be_sent_again(
    make: Make, owner: User, poster: Poster, log: Path, receiver: Receiver
) -> None:
    webhook = make("/500")
    delivery = send_once(webhook, owner, poster)
    Delivery.objects.filter(pk=delivery.pk).update(attempts=len(SCHEDULE_S), next_at=timezone.now())
    Webhook.objects.filter(pk=webhook.pk).update(paused_until=timezone.now())
    claimed = claim()
    assert claimed is not None
    drain(claimed, poster)
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts) == ("dead", len(SCHEDULE_S) + 1)
    Webhook.objects.filter(pk=webhook.pk).update(url=receiver.url + "/ok")
    webhook.refresh_from_db()
    assert redeliver_all(webhook=webhook, by=owner) == 1
    claimed = claim()
    assert claimed is not None
    drain(claimed, poster)
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts) == ("delivered", 1)
    redeliver(delivery=delivery, by=owner)
    claimed = claim()
    assert claimed is not None
    drain(claimed, poster)
    ids = {request["headers"]["webhook-id"] for request in receiver.read()}
    assert ids == {f"msg_{delivery.event_id.hex}"}
    assert len(receiver.read()) == 4


def test_who_lost_the_claim_writes_nothing(make: Make, owner: User, poster: Poster, log: Path) -> None:
    webhook = make("/ok")
    delivery = send_test(webhook=webhook, by=owner)
    slow = claim()
    assert slow is not None
    assert claim() is None
    Webhook.objects.filter(pk=webhook.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    quick = claim()
    assert quick is not None
    assert not note(slow, delivery, Reply(500), took_ms=1)
    reply, took_ms = attempt(quick, delivery, poster)
    assert note(quick, delivery, reply, took_ms=took_ms)
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts) == ("delivered", 1)


def test_a_slow_address_keeps_nobody_else_waiting(make: Make, shop: Project, owner: User) -> None:
    slow, quick = make("/slow"), make("/ok")
    done, go_on = Event(), Event()

    def post(webhook: Webhook, body: bytes, headers: dict[str, str]) -> Reply:
        if webhook.pk == slow.pk:
            go_on.wait(120)
        else:
            done.set()
        return Reply(200)

    for webhook in (slow, quick):
        send_test(webhook=webhook, by=owner)
    sender = Sender(post)
    assert sender.send_due() == 2
    assert done.wait(120)
    assert sender.send_due() == 0
    go_on.set()
    sender.close()
    assert set(Delivery.objects.values_list("state", flat=True)) == {"delivered"}


def test_what_was_taken_is_forgotten_after_a_month(make: Make, owner: User, poster: Poster, log: Path) -> None:
    delivery = send_once(make("/ok"), owner, poster)
    assert forget_old() == 0
    Delivery.objects.filter(pk=delivery.pk).update(ended_at=timezone.now() - timedelta(days=31))
    assert forget_old() == 1


def test_a_message_that_was_put_off_for_centuries_is_due_again_after_the_migration(make: Make, owner: User) -> None:
    row = send_test(webhook=make("/ok"), by=owner)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE webhooks_delivery SET next_at = '10000-01-01 04:59:59+00' WHERE id = %s", [row.pk])
        cursor.execute(import_module("apps.webhooks.migrations.0003_waits_end").BRING_BACK)
    row.refresh_from_db()
    assert row.next_at < timezone.now() + timedelta(days=2)
