"""The alignment suite."""

from django.contrib import admin

from apps.base.admin import ReadOnlyAdmin
from apps.experiments.models import ExperimentRun, ScenarioResult


@admin.register(ExperimentRun)
class ExperimentRunAdmin(ReadOnlyAdmin):
    list_display = ["id", "project", "experiment", "finished_at"]
    list_filter = ["experiment", "project"]
    list_select_related = ["project"]


@admin.register(ScenarioResult)
class ScenarioResultAdmin(ReadOnlyAdmin):
    list_display = ["id", "run", "scenario", "score"]
    list_filter = ["scenario"]
    list_select_related = ["run"]
