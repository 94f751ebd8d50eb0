"""What models are measured on: held-out panels, and the data sets of benchmarks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, IntegerField, Max
from django.db.models.expressions import Func

from apps.accounts.models import Project
from apps.adapters.models import PanelResult
from apps.adapters.panels import has_panel
from apps.evals.models import Dataset, EvalRun
from apps.workers.models import Worker

PAGE = 25
RUNS = 50
PANELS = 20


@dataclass(frozen=True)
class PanelRow:
    """A held-out panel, and how many models have met it."""

    name: str
    worker: str
    items: int
    models: int
    last_at: datetime


@dataclass(frozen=True)
class DatasetRow:
    """A data set, and how often something was measured on it."""

    dataset: Dataset
    runs: int


def is_measured(project: Project) -> bool:
    """Whether there are, or may come to be, held-out tasks of what the project's workers do."""
    workers = list(Worker.objects.filter(project=project, is_active=True).only("kind"))
    return not workers or any(has_panel(worker) for worker in workers)


def find_panels(project: Project) -> list[PanelRow]:
    """Newest first."""
    items = Func("outcomes", function="jsonb_array_length", output_field=IntegerField())
    rows: Any = (
        PanelResult.objects.filter(worker__project=project)
        .order_by()
        .values("panel", "worker__name")
        .annotate(items=Max(items), models=Count("pk"), last=Max("created_at"))
        .order_by("-last")[:PANELS]
    )
    return [PanelRow(row["panel"], row["worker__name"], row["items"], row["models"], row["last"]) for row in rows]


def find_datasets(project: Project, *, before: int | None = None) -> tuple[list[DatasetRow], int | None]:
    """A page of data sets, newest first, and the id to go on below."""
    datasets = Dataset.objects.filter(project=project)
    if before is not None:
        datasets = datasets.filter(pk__lt=before)
    found = list(datasets.annotate(measured=Count("eval_runs")).order_by("-id")[: PAGE + 1])
    rows = [DatasetRow(dataset, dataset.measured) for dataset in found[:PAGE]]
    return rows, found[PAGE - 1].pk if len(found) > PAGE else None


def find_runs(dataset: Dataset) -> Sequence[EvalRun]:
    """The latest measurements on a data set."""
    return list(EvalRun.objects.filter(dataset=dataset).select_related("adapter").order_by("-id")[:RUNS])
