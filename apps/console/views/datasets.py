"""What models are measured on."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_GET

from apps.accounts.rights import Right
from apps.console.selectors import datasets
from apps.console.views.frame import Scene, project_view, read_number, show
from apps.evals.models import Dataset


@require_GET
@project_view(Right.METRICS_READ)
def list_datasets(request: HttpRequest, scene: Scene) -> HttpResponse:
    rows, older = datasets.find_datasets(scene.project, before=read_number(request, "before"))
    panels = datasets.find_panels(scene.project)
    context = {
        "rows": rows,
        "older": older,
        "panels": panels,
        "is_measured": bool(panels) or datasets.is_measured(scene.project),
    }
    return show(request, scene, "datasets", context)


@require_GET
@project_view(Right.METRICS_READ)
def show_dataset(request: HttpRequest, scene: Scene, dataset_id: int) -> HttpResponse:
    dataset = get_object_or_404(Dataset, project=scene.project, pk=dataset_id)
    return show(request, scene, "dataset", {"dataset": dataset, "runs": datasets.find_runs(dataset)})
