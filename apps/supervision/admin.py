"""What agents asked, and what was said."""

from django.contrib import admin

from apps.base.admin import ReadOnlyAdmin
from apps.supervision.models import Proposal


@admin.register(Proposal)
class ProposalAdmin(ReadOnlyAdmin):
    list_display = ["id", "project", "task", "kind", "tool", "state", "proposed_by", "decided_by", "decided_at"]
    list_filter = ["state", "kind", "project"]
    search_fields = ["=id", "=task__id"]
    list_select_related = ["project", "task", "proposed_by"]
