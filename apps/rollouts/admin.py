"""The ledger."""

from django.contrib import admin

from apps.base.admin import ReadOnlyAdmin
from apps.rollouts.models import Batch, Demonstration, PreferencePair, Rollout, TrainingUse


@admin.register(Rollout)
class RolloutAdmin(ReadOnlyAdmin):
    list_display = ["id", "project", "task", "attempt", "is_usable", "unusable_reason", "reward", "reward_source"]
    list_filter = ["is_usable", "reward_source", "project"]
    search_fields = ["=task__id", "=attempt__id"]
    list_select_related = ["project", "task", "attempt"]


@admin.register(Batch)
class BatchAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "worker",
        "number",
        "kind",
        "state",
        "task_count",
        "target_tasks",
        "rollout_count",
        "closed_at",
    ]
    list_filter = ["state", "project"]
    list_select_related = ["worker"]


@admin.register(TrainingUse)
class TrainingUseAdmin(ReadOnlyAdmin):
    list_display = ["rollout_id", "batch"]
    search_fields = ["=rollout__id"]
    list_select_related = ["batch__worker"]


@admin.register(PreferencePair)
class PreferencePairAdmin(ReadOnlyAdmin):
    list_display = ["id", "project", "task", "source", "chosen", "rejected", "feedback", "weight", "batch"]
    list_filter = ["source", "project"]
    search_fields = ["=task__id", "=feedback__id", "=batch__id"]
    list_select_related = ["project", "task", "chosen", "rejected", "feedback", "batch__worker"]


@admin.register(Demonstration)
class DemonstrationAdmin(ReadOnlyAdmin):
    list_display = ["id", "project", "task", "source", "attempt", "feedback", "weight", "batch"]
    list_filter = ["source", "project"]
    search_fields = ["=task__id", "=feedback__id", "=batch__id"]
    list_select_related = ["project", "task", "attempt", "feedback", "batch__worker"]
