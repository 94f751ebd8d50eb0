"""Sending what is due. One process at a time sends to an address, in order; what it cannot say now, it says later.

The row is the truth: a message is pending until the address answered 2xx. A process that dies leaves a lease that ends,
and another sends the message again, under the same id.
"""

import logging
import random
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connections, transaction
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now
from django.utils import timezone

from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.sealing import SealedKeyError
from apps.webhooks.models import Delivery, Webhook
from apps.webhooks.secrets import read_secrets
from tentalis.core.backoff import grow_wait
from tentalis.core.canon import canonical_json
from tentalis.core.webhooks import make_headers

logger = logging.getLogger(__name__)

SCHEDULE_S = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""Waits after the first, second… failed attempt, as Standard Webhooks proposes; after the last one it is given up."""
JITTER = (0.8, 1.2)
MAX_PAUSE_S = 300
DRAIN_S = 5.0
LANES = 8
KEPT = timedelta(days=30)
FORGOTTEN_AT_ONCE = 5_000
KEPT_TRIES = 10
KEPT_CHARS = 300
GONE = 410


@dataclass(frozen=True)
class Reply:
    """What an address answered.

    Args:
        status: HTTP status; 0: there was no answer, `words` says why.
        words: the beginning of the body.
        retry_after_s: how long it asked to be left alone; None: it did not.
    """

    status: int
    words: str = ""
    retry_after_s: float | None = None

    @property
    def is_taken(self) -> bool:
        return 200 <= self.status < 300


Post = Callable[[Webhook, bytes, dict[str, str]], Reply]


class Sender:
    """Sends to several addresses at once; each address waits only for itself.

    Args:
        post: sends one message through the guard of outbound requests; returns a Reply, raises nothing.
    """

    def __init__(self, post: Post) -> None:
        self._post = post
        self._pool = ThreadPoolExecutor(LANES, thread_name_prefix="webhooks")
        self._free = threading.Semaphore(LANES)

    def send_due(self) -> int:
        """Begin sending to every address that has something due and nobody at it, as lanes are free; how many."""
        begun = 0
        while self._free.acquire(blocking=False):
            webhook = claim()
            if webhook is None:
                self._free.release()
                break
            self._pool.submit(self._run, webhook)
            begun += 1
        return begun

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, webhook: Webhook) -> None:
        try:
            drain(webhook, self._post)
        except Exception:  # the boundary of a thread: what is pending stays so, and its lease ends
            logger.exception("sending to webhook %s broke off", webhook.pk)
        finally:
            connections.close_all()
            self._free.release()


def lease() -> timedelta:
    return timedelta(seconds=2 * settings.TENTALIS["WEBHOOK_TIMEOUT_SECONDS"] + 2)


def claim() -> Webhook | None:
    """Take an address that has something due, for this process, by turns; None: there is none."""
    due = Delivery.objects.filter(webhook=OuterRef("pk"), state=Delivery.State.PENDING, next_at__lte=Now())
    is_free = Q(fence__isnull=True) | Q(lease_until__lt=Now())
    with transaction.atomic():
        webhook = (
            Webhook.objects.select_for_update(skip_locked=True, of=("self",))
            .select_related("project")
            .filter(is_free, Exists(due), is_active=True, paused_until__lte=Now())
            .order_by("paused_until", "pk")
            .first()
        )
        if webhook is not None:
            webhook.fence = uuid.uuid4()
            Webhook.objects.filter(pk=webhook.pk).update(
                fence=webhook.fence, lease_until=Now() + lease(), paused_until=Now()
            )
    return webhook


def drain(webhook: Webhook, post: Post) -> int:
    """Send what is due to a claimed address, oldest first, until one fails or five seconds are over; how many."""
    until, sent = time.monotonic() + DRAIN_S, 0
    while time.monotonic() < until:
        due = webhook.deliveries.filter(state=Delivery.State.PENDING, next_at__lte=Now())
        delivery = due.order_by("pk").first()
        if delivery is None:
            break
        reply, took_ms = attempt(webhook, delivery, post)
        if not note(webhook, delivery, reply, took_ms=took_ms):
            return sent  # another process has the address by now, or somebody switched it off
        sent += 1
        if not reply.is_taken:
            break
    Webhook.objects.filter(pk=webhook.pk, fence=webhook.fence).update(fence=None, lease_until=None)
    return sent


def attempt(webhook: Webhook, delivery: Delivery, post: Post) -> tuple[Reply, int]:
    """Send one message once; the answer, and how many milliseconds it took."""
    body = canonical_json(delivery.body)
    try:
        in_force = read_secrets(webhook)
    except SealedKeyError as error:
        return Reply(0, f"the secret cannot be opened, so nothing was sent; give it a new one ({error})"), 0
    message_id = f"msg_{delivery.event_id.hex}"
    headers = make_headers(message_id=message_id, at_s=int(time.time()), body=body, secret_texts=in_force)
    began = time.monotonic()
    reply = post(webhook, body, headers)
    return reply, round(1000 * (time.monotonic() - began))


def note(webhook: Webhook, delivery: Delivery, reply: Reply, *, took_ms: int) -> bool:
    """Keep what came of an attempt; whether the claim still held. If not, nothing is written."""
    with transaction.atomic():
        held = Webhook.objects.filter(pk=webhook.pk, fence=webhook.fence, is_active=True)
        if not held.update(lease_until=Now() + lease()):
            return False
        tried = {
            "at": timezone.now().isoformat(timespec="milliseconds"),
            "status": reply.status,
            "words": reply.words[:KEPT_CHARS],
            "ms": took_ms,
        }
        attempts = delivery.attempts + 1
        changes: dict[str, Any] = {
            "attempts": attempts,
            "status": reply.status,
            "tries": [*delivery.tries, tried][-KEPT_TRIES:],
        }
        if reply.is_taken:
            changes |= {"state": Delivery.State.DELIVERED, "ended_at": Now()}
        elif attempts > len(SCHEDULE_S):
            changes |= {"state": Delivery.State.DEAD, "ended_at": Now()}
        else:
            wait_s = scale(SCHEDULE_S[attempts - 1] * random.uniform(*JITTER))
            changes["next_at"] = Now() + timedelta(seconds=max(wait_s, reply.retry_after_s or 0))
        Delivery.objects.filter(pk=delivery.pk, state=Delivery.State.PENDING).update(**changes)
        _note_health(webhook, reply)
    return True


def _note_health(webhook: Webhook, reply: Reply) -> None:
    row = Webhook.objects.get(pk=webhook.pk)
    if reply.is_taken:
        if row.failures:
            Webhook.objects.filter(pk=row.pk).update(failures=0, failing_since=None)
        return
    pause_s = scale(grow_wait(row.failures, first_s=1, cap_s=MAX_PAUSE_S))
    row.failures += 1
    row.failing_since = row.failing_since or timezone.now()
    Webhook.objects.filter(pk=row.pk).update(
        failures=row.failures,
        failing_since=row.failing_since,
        paused_until=Now() + timedelta(seconds=max(pause_s, min(reply.retry_after_s or 0, MAX_PAUSE_S))),
    )
    if row.project_id is None:
        return  # the settings name it, and they alone end it: alarms are not to stop because nobody heard them
    patience = timedelta(days=settings.TENTALIS["WEBHOOK_DISABLE_DAYS"])
    if reply.status == GONE:
        disable(row, reason="the address answered 410: it wants no more messages")
    elif timezone.now() - row.failing_since > patience:
        disable(row, reason=f"every attempt failed since {row.failing_since:%Y-%m-%d %H:%M} UTC")


def disable(webhook: Webhook, *, reason: str) -> None:
    """Switch an address off without a person, in the running transaction; what is pending stays pending."""
    changed = Webhook.objects.filter(pk=webhook.pk, is_active=True).update(
        is_active=False, disabled_reason=reason, fence=None, lease_until=None
    )
    if changed:
        record(Kind.WEBHOOK_DISABLED, subject=webhook, by="webhooks", payload={"reason": reason})


def forget_old() -> int:
    """Delete some messages that were taken more than 30 days ago; how many. The audit keeps what they told."""
    old = Delivery.objects.filter(state=Delivery.State.DELIVERED, ended_at__lt=Now() - KEPT)
    chosen = list(old.order_by("ended_at").values_list("pk", flat=True)[:FORGOTTEN_AT_ONCE])
    return Delivery.objects.filter(pk__in=chosen).delete()[0] if chosen else 0


def scale(seconds: float) -> float:
    """A wait of the schedule; tests and hurried installations shorten all of them by one setting."""
    return float(seconds * settings.TENTALIS["RETRY_BASE_SECONDS"])
