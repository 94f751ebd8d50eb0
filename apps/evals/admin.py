"""Benchmarks."""

from django.contrib import admin

from apps.base.admin import ReadOnlyAdmin
from apps.evals.models import Dataset, EvalResult, EvalRun


@admin.register(Dataset)
class DatasetAdmin(ReadOnlyAdmin):
    list_display = ["name", "project", "size", "sha256"]
    list_filter = ["project"]
    search_fields = ["name"]
    list_select_related = ["project"]


@admin.register(EvalRun)
class EvalRunAdmin(ReadOnlyAdmin):
    list_display = ["id", "project", "benchmark", "adapter", "finished_at"]
    list_filter = ["benchmark", "project"]
    list_select_related = ["project", "adapter"]


@admin.register(EvalResult)
class EvalResultAdmin(ReadOnlyAdmin):
    list_display = ["id", "run", "item", "score"]
    search_fields = ["=run__id", "item"]
    list_select_related = ["run__adapter"]
