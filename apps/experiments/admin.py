"""The alignment suite."""

from apps.base.admin import show
from apps.experiments.models import ExperimentRun, ScenarioResult

show(ExperimentRun, "id project experiment finished_at", filters="experiment project")
show(ScenarioResult, "id run scenario score", filters="scenario")
