"""Tasks, attempts and steps."""

from django.contrib import admin

from apps.base.admin import ReadOnlyAdmin
from apps.tasks.models import Attempt, FurtherExchange, ShadowAttempt, Step, Task


@admin.register(Task)
class TaskAdmin(ReadOnlyAdmin):
    list_display = ["id", "project", "worker", "environment", "state", "score", "submitted_by", "created_at"]
    list_filter = ["state", "environment", "project"]
    search_fields = ["=id"]
    list_select_related = ["project", "worker", "submitted_by"]


@admin.register(Attempt)
class AttemptAdmin(ReadOnlyAdmin):
    list_display = ["id", "task", "index", "worker", "adapter", "state", "outcome", "score"]
    list_filter = ["state"]
    search_fields = ["=task__id"]
    list_select_related = ["task", "worker", "adapter"]


@admin.register(Step)
class StepAdmin(ReadOnlyAdmin):
    list_display = ["id", "attempt", "index", "kind", "tool_name"]
    search_fields = ["=attempt__id"]
    list_select_related = ["attempt"]


@admin.register(FurtherExchange)
class FurtherExchangeAdmin(ReadOnlyAdmin):
    list_display = ["exchange", "attempt", "place"]
    search_fields = ["=exchange__id", "=attempt__id"]
    list_select_related = ["exchange", "attempt"]


@admin.register(ShadowAttempt)
class ShadowAttemptAdmin(ReadOnlyAdmin):
    list_display = ["id", "shadow", "task", "outcome", "score", "created_at"]
    search_fields = ["=task__id"]
    list_select_related = ["shadow", "task"]
