"""Segments: what is on its way, and what was given up."""

from django.contrib import admin

from apps.base.admin import ReadOnlyAdmin
from apps.outbox.models import Segment


@admin.register(Segment)
class SegmentAdmin(ReadOnlyAdmin):
    list_display = ["id", "kind", "subject_id", "state", "link", "queue", "attempts", "run_after", "finished_at"]
    list_filter = ["state", "kind", "queue"]
    search_fields = ["=subject_id"]
