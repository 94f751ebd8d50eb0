"""What scorers said."""

from django.contrib import admin

from apps.base.admin import ReadOnlyAdmin
from apps.scoring.models import Judge, RewardModel, StepLabel, StepScore


@admin.register(Judge)
class JudgeAdmin(ReadOnlyAdmin):
    list_display = ["name", "project", "model", "votes", "trust", "is_active"]
    list_filter = ["is_active", "project"]
    list_select_related = ["project"]


@admin.register(StepScore)
class StepScoreAdmin(ReadOnlyAdmin):
    list_display = ["id", "attempt", "step", "scorer", "score", "spread", "reason"]
    search_fields = ["=attempt__id", "=scorer"]
    list_select_related = ["attempt", "step"]


@admin.register(RewardModel)
class RewardModelAdmin(ReadOnlyAdmin):
    list_display = ["name", "project", "worker", "version", "state", "created_at"]
    list_filter = ["state", "project"]
    search_fields = ["name", "=sha256"]
    list_select_related = ["project", "worker"]


@admin.register(StepLabel)
class StepLabelAdmin(ReadOnlyAdmin):
    list_display = ["id", "attempt", "step", "source", "value", "created_at"]
    list_filter = ["source"]
    search_fields = ["=attempt__id"]
    list_select_related = ["attempt", "step"]
