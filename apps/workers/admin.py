"""Agents."""

from django.contrib import admin

from apps.base.admin import ReadOnlyAdmin
from apps.workers.models import Worker


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = ["name", "project", "kind", "base_model", "learns_with", "is_active"]
    list_filter = ["kind", "is_active", "project"]
    search_fields = ["name"]
    list_select_related = ["project", "learns_with"]
