"""What was sent to an address, newest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.accounts.models import Project
from apps.base.pages import take_page
from apps.webhooks.models import Delivery, Webhook
from apps.webhooks.selectors import WebhookHealth, read_health
from apps.webhooks.services import find_origin

PAGE = 25


@dataclass(frozen=True)
class Try:
    """One time a message was sent. `status` 0: nobody answered."""

    at: Any
    status: int
    words: str
    ms: int | None


@dataclass(frozen=True)
class DeliveryRow:
    """One message."""

    delivery: Delivery

    @property
    def tries(self) -> list[Try]:
        """The latest of them, the last first."""
        return [
            Try(one.get("at", ""), int(one.get("status", 0)), str(one.get("words", "")), one.get("ms"))
            for one in reversed(self.delivery.tries)
        ]

    @property
    def last(self) -> Try | None:
        return next(iter(self.tries), None)


@dataclass(frozen=True)
class WebhookView:
    """Everything the page of a webhook shows. `origin`: the part of its address that is no secret."""

    health: WebhookHealth
    rows: Sequence[DeliveryRow]
    older: int | None

    @property
    def webhook(self) -> Webhook:
        return self.health.webhook

    @property
    def origin(self) -> str:
        return find_origin(self.webhook.url)

    @property
    def subject(self) -> str:
        """What live updates call it."""
        return f"webhook:{self.webhook.pk}"


def find_webhook(project: Project, webhook_id: int) -> Webhook | None:
    return Webhook.objects.filter(project=project, pk=webhook_id).select_related("project").first()


def show_webhook(webhook: Webhook, *, state: str = "", before: int | None = None) -> WebhookView:
    """A page of its messages. Three queries."""
    deliveries = Delivery.objects.filter(webhook=webhook).defer("body")
    if state:
        deliveries = deliveries.filter(state=state)
    page, older = take_page(deliveries, before=before, size=PAGE)
    return WebhookView(health=read_health([webhook])[0], rows=[DeliveryRow(one) for one in page], older=older)
