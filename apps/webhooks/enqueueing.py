"""From audit entries to messages: each entry once for each webhook that wants it, in the order of transactions."""

from typing import Any

from django.db import connection, transaction
from django.db.models import Q

from apps.audit.models import AuditEntry
from apps.webhooks.models import Delivery, Webhook

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
            webhook.cursor_xid, webhook.cursor_id = page[-1].xid, page[-1].pk
        elif page or horizon - webhook.cursor_xid > IDLE_TRANSACTIONS:
            webhook.cursor_xid, webhook.cursor_id = horizon, 0
        else:
            return 0
        Delivery.objects.bulk_create([make_delivery(webhook, entry) for entry in page], ignore_conflicts=True)
        webhook.save(update_fields=["cursor_xid", "cursor_id"])
    return len(page)


def find_horizon() -> int:
    """The first transaction that may still be running."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
        return int(cursor.fetchone()[0])


def find_entries(webhook: Webhook, horizon: int) -> Any:
    """What the webhook wants of the entries between its cursor and the horizon, in the order of transactions."""
    is_behind = Q(xid__gt=webhook.cursor_xid) | Q(xid=webhook.cursor_xid, pk__gt=webhook.cursor_id)
    rows = AuditEntry.objects.filter(is_behind, xid__gte=webhook.cursor_xid, xid__lt=horizon)
    rows = rows.filter(project_id=webhook.project_id).exclude(kind__startswith=OWN)
    if webhook.kinds:
        rows = rows.filter(kind__in=webhook.kinds)
    return rows.order_by("xid", "pk")


def make_delivery(webhook: Webhook, entry: AuditEntry) -> Delivery:
    """The message about an entry: ids and states; free text only where the webhook asks for details."""
    data: dict[str, Any] = {
        "id": entry.pk,
        "project": webhook.project.slug,
        "subject": {"type": entry.subject_type, "id": entry.subject_id},
        "by": entry.actor,
    }
    data |= {name: entry.payload[name] for name in ("from", "to") if isinstance(entry.payload.get(name), str)}
    if webhook.include_details:
        data["details"] = entry.payload
    body = {"type": entry.kind, "timestamp": entry.at.isoformat(), "data": data}
    return Delivery(webhook=webhook, entry_id=entry.pk, kind=entry.kind, body=body)
