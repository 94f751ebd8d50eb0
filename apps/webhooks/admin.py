"""Webhooks and what was sent."""

from django.contrib import admin

from apps.base.admin import ReadOnlyAdmin
from apps.webhooks.models import Delivery, Webhook


@admin.register(Webhook)
class WebhookAdmin(ReadOnlyAdmin):
    list_display = ["id", "project", "name", "url", "is_active", "failures", "failing_since"]
    list_filter = ["is_active"]
    list_select_related = ["project"]
    exclude = ["secret_sealed", "old_secret_sealed"]


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    list_display = ["id", "webhook", "kind", "state", "attempts", "status", "next_at", "ended_at"]
    list_filter = ["state"]
    list_select_related = ["webhook__project"]
    search_fields = ["=entry_id"]
