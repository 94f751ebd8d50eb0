"""How a project's webhooks do."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Max, Q, QuerySet

from apps.accounts.models import Project
from apps.webhooks.models import Delivery, Webhook


@dataclass(frozen=True)
class WebhookHealth:
    """A webhook, and how many of its messages wait, and were given up.

    Args:
        delivered_at: when it last took one.
    """

    webhook: Webhook
    pending: int
    dead: int
    delivered_at: datetime | None


def list_webhooks(project: Project) -> list[WebhookHealth]:
    """A project's webhooks, the oldest first."""
    return read_health(Webhook.objects.filter(project=project).select_related("project").order_by("pk"))


def read_health(webhooks: "Sequence[Webhook] | QuerySet[Webhook]") -> list[WebhookHealth]:
    """The health of each of these, in their order."""
    rows = (
        Delivery.objects.filter(webhook__in=[webhook.pk for webhook in webhooks])
        .order_by()
        .values("webhook_id")
        .annotate(
            pending=Count("pk", filter=Q(state=Delivery.State.PENDING)),
            dead=Count("pk", filter=Q(state=Delivery.State.DEAD)),
            delivered_at=Max("ended_at", filter=Q(state=Delivery.State.DELIVERED)),
        )
    )
    counts = {row["webhook_id"]: (row["pending"], row["dead"], row["delivered_at"]) for row in rows}
    return [WebhookHealth(webhook, *counts.get(webhook.pk, (0, 0, None))) for webhook in webhooks]
