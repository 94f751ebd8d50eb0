"""From audit entries to messages: each entry once for each webhook that wants it, in the order of transactions."""

from typing import Any

from django.db import transaction

from apps.audit.models import AuditEntry, ChainPlace, find_horizon
from apps.webhooks.models import CURSOR, Delivery, Webhook

PAGE = 500
IDLE_TRANSACTIONS = 1000
"""A cursor with nothing behind it is moved on when so many transactions have passed: seldom, and never far behind."""
OWN = "webhook."


def enqueue_all() -> int:
    """Write the messages that are due of every active webhook; how many."""
    return sum(enqueue(pk) for pk in Webhook.objects.filter(is_active=True).values_list("pk", flat=True))


def enqueue(webhook_id: int) -> int:
    """Write up to 500 messages of one webhook and move its cursor behind them, in one transaction.

    Only entries of transactions older than every running one are looked at: none can appear behind the cursor later.
    """
    with transaction.atomic():
        webhook = (
            Webhook.objects.select_for_update(skip_locked=True, of=("self",))
            .select_related("project")
            .filter(pk=webhook_id, is_active=True)
            .first()
        )
        if webhook is None:
            return 0
        horizon = find_horizon()
        page = list(find_entries(webhook, horizon)[:PAGE])
        if len(page) == PAGE:
            webhook.cursor = ChainPlace(page[-1].epoch, page[-1].xid, page[-1].pk)
        elif page or _is_far(webhook.cursor, horizon):
            webhook.cursor = horizon
        else:
            return 0
        Delivery.objects.bulk_create([make_delivery(webhook, entry) for entry in page], ignore_conflicts=True)
        webhook.save(update_fields=CURSOR)
    return len(page)


def _is_far(cursor: ChainPlace, horizon: ChainPlace) -> bool:
    return cursor.epoch < horizon.epoch or horizon.xid - cursor.xid > IDLE_TRANSACTIONS


def find_entries(webhook: Webhook, horizon: ChainPlace) -> Any:
    """What the webhook wants of the entries between its cursor and the horizon, in the order of transactions."""
    rows = AuditEntry.objects.behind(webhook.cursor).before(horizon)
    rows = rows.filter(project_id=webhook.project_id).exclude(kind__startswith=OWN)
    if webhook.kinds:
        rows = rows.filter(kind__in=webhook.kinds)
    return rows.in_commit_order()


def make_delivery(webhook: Webhook, entry: AuditEntry) -> Delivery:
    """The message about an entry: ids and states; free text only where the webhook asks for details."""
    data: dict[str, Any] = {
        "id": entry.pk,
        "project": webhook.project.slug if webhook.project else None,
        "subject": {"type": entry.subject_type, "id": entry.subject_id},
        "by": entry.actor,
    }
    data |= {name: entry.payload[name] for name in ("from", "to") if isinstance(entry.payload.get(name), str)}
    if webhook.include_details:
        data["details"] = entry.payload
    body = {"type": entry.kind, "timestamp": entry.at.isoformat(), "data": data}
    return Delivery(webhook=webhook, entry_id=entry.pk, kind=entry.kind, body=body)
