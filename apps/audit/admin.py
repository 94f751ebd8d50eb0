"""What happened, entry by entry, and its place in the chain."""

from django.contrib import admin
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html

from apps.audit.models import AuditEntry, AuditSeal
from apps.base.admin import ReadOnlyAdmin

# model name in an entry -> app label in the admin's addresses
APP_LABELS = {
    "user": "accounts",
    "project": "accounts",
    "member": "accounts",
    "apitoken": "accounts",
    "provider": "inference",
    "worker": "workers",
    "task": "tasks",
    "review": "feedback",
    "feedback": "feedback",
    "hint": "feedback",
    "batch": "rollouts",
    "trainingrun": "training",
    "adapter": "adapters",
    "verdict": "adapters",
    "deployment": "adapters",
    "segment": "outbox",
}


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = ["id", "at", "kind", "subject", "actor", "project_id"]
    list_filter = ["kind"]
    search_fields = ["=actor", "=subject_id", "=project_id"]
    ordering = ["-id"]
    sortable_by = ["id"]

    @admin.display(description="subject")
    def subject(self, entry: AuditEntry) -> str:
        """Links to the row the entry is about, as long as its kind has a page here."""
        name = f"{entry.subject_type} {entry.subject_id}" if entry.subject_id is not None else entry.subject_type
        try:
            path = reverse(
                f"admin:{APP_LABELS.get(entry.subject_type, '')}_{entry.subject_type}_change", args=[entry.subject_id]
            )
        except NoReverseMatch:
            return name
        return format_html('<a href="{}">{}</a>', path, name)


@admin.register(AuditSeal)
class AuditSealAdmin(ReadOnlyAdmin):
    list_display = ["seq", "entry_id", "hash", "previous_hash"]
    search_fields = ["=entry_id", "=hash"]
    ordering = ["-seq"]
