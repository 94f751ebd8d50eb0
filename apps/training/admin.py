"""Runs."""

from django.contrib import admin

from apps.base.admin import ReadOnlyAdmin
from apps.training.models import GpuLease, ManagerRun, RewardAnswer, RewardEndpoint, TrainingRun


@admin.register(TrainingRun)
class TrainingRunAdmin(ReadOnlyAdmin):
    list_display = ["id", "project", "worker", "batch", "state", "attempt", "backend", "started_at", "finished_at"]
    list_filter = ["state", "backend", "project"]
    search_fields = ["=id"]
    list_select_related = ["project", "worker", "batch__worker"]


@admin.register(ManagerRun)
class ManagerRunAdmin(ReadOnlyAdmin):
    list_display = ["id", "project", "manager", "kind", "state", "audits", "created_at"]
    list_filter = ["state", "kind", "project"]
    list_select_related = ["project"]


@admin.register(GpuLease)
class GpuLeaseAdmin(ReadOnlyAdmin):
    list_display = ["slot", "run", "fence", "expires_at"]
    list_select_related = ["run"]


@admin.register(RewardEndpoint)
class RewardEndpointAdmin(ReadOnlyAdmin):
    list_display = ["run", "attempt", "expires_at"]
    exclude = ["secret_hash"]
    list_select_related = ["run"]


@admin.register(RewardAnswer)
class RewardAnswerAdmin(ReadOnlyAdmin):
    list_display = ["id", "run", "task", "created_at"]
    search_fields = ["=run__id", "=task__id"]
    list_select_related = ["run", "task"]
