"""What is and was wrong with the installation."""

from django.contrib import admin

from apps.base.admin import ReadOnlyAdmin
from apps.operations.models import Alarm, ServerLook, SpanCursor


@admin.register(ServerLook)
class ServerLookAdmin(ReadOnlyAdmin):
    list_display = ["name", "away_since", "words", "latency_ms", "looked_at"]


@admin.register(SpanCursor)
class SpanCursorAdmin(ReadOnlyAdmin):
    list_display = ["endpoint", "entry_id", "exchange_id"]


@admin.register(Alarm)
class AlarmAdmin(ReadOnlyAdmin):
    list_display = ["rule", "words", "state", "created_at", "closed_at"]
    list_filter = ["state", "rule"]
    ordering = ["-state", "-id"]
