"""Answers kept for keyed requests."""

from django.contrib import admin

from apps.api.models import IdempotencyKey
from apps.base.admin import ReadOnlyAdmin


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(ReadOnlyAdmin):
    list_display = ["id", "user", "status", "location", "created_at"]
    list_filter = ["status"]
    list_select_related = ["user"]
