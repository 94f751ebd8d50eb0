"""Benchmarks."""

from apps.base.admin import show
from apps.evals.models import Dataset, EvalResult, EvalRun

show(Dataset, "name project size sha256", filters="project", search="name")
show(EvalRun, "id project benchmark adapter finished_at", filters="benchmark project")
show(EvalResult, "id run item score", search="=run__id item", select="run__adapter")
