"""Adapters, the gate's verdicts, and what serves."""

from django.contrib import admin

from apps.adapters.models import Adapter, Deployment, PanelResult, Shadow, SideResult, Verdict
from apps.base.admin import ReadOnlyAdmin


@admin.register(Adapter)
class AdapterAdmin(ReadOnlyAdmin):
    list_display = ["name", "project", "worker", "version", "state", "is_anchor", "created_at"]
    list_filter = ["state", "is_anchor", "project"]
    search_fields = ["name", "=sha256"]
    list_select_related = ["project", "worker"]


@admin.register(Verdict)
class VerdictAdmin(ReadOnlyAdmin):
    list_display = ["adapter", "question", "outcome", "compared_with", "created_at"]
    list_filter = ["question", "outcome"]
    search_fields = ["adapter__name"]
    list_select_related = ["adapter"]


@admin.register(PanelResult)
class PanelResultAdmin(ReadOnlyAdmin):
    list_display = ["worker", "adapter", "panel", "mean_outcome", "created_at"]
    list_filter = ["panel"]
    list_select_related = ["worker", "adapter"]


@admin.register(SideResult)
class SideResultAdmin(ReadOnlyAdmin):
    list_display = ["worker", "adapter", "kind", "panel", "scale", "created_at"]
    list_filter = ["kind"]
    list_select_related = ["worker", "adapter"]


@admin.register(Deployment)
class DeploymentAdmin(ReadOnlyAdmin):
    list_display = ["worker", "adapter", "previous", "epoch", "moved_at"]
    list_select_related = ["worker", "adapter", "previous"]


@admin.register(Shadow)
class ShadowAdmin(ReadOnlyAdmin):
    list_display = ["id", "worker", "adapter", "percent", "state", "outcome", "created_at", "ended_at"]
    list_filter = ["state", "outcome"]
    list_select_related = ["worker", "adapter"]
