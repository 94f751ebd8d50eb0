"""Webhooks and what was sent."""

from apps.base.admin import show
from apps.webhooks.models import Delivery, Webhook

show(
    Webhook,
    "id project name url is_active failures failing_since",
    filters="is_active",
    hidden="secret_sealed old_secret_sealed",
)
show(
    Delivery,
    "id webhook kind state attempts status next_at ended_at",
    filters="state",
    search="=entry_id",
    select="webhook__project",
)
