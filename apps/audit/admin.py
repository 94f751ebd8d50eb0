"""The chain's places. The entries have a page that knows projects and rights: `apps.console.admin_audit`."""

from django.contrib import admin

from apps.audit.models import AuditEpoch, AuditSeal
from apps.base.admin import ReadOnlyAdmin


@admin.register(AuditEpoch)
class AuditEpochAdmin(ReadOnlyAdmin):
    list_display = ["number", "cluster", "began_at"]
    ordering = ["-number"]


@admin.register(AuditSeal)
class AuditSealAdmin(ReadOnlyAdmin):
    list_display = ["seq", "entry_id", "hash", "previous_hash"]
    search_fields = ["=entry_id", "=hash"]
    ordering = ["-seq"]
