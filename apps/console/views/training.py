"""Runs and adapters: what trained, what came of it, what serves."""

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.rights import Right
from apps.adapters.models import Adapter
from apps.console.selectors import training
from apps.console.views.frame import Scene, act, leave, project_view, read_number, show
from apps.pipeline import flow
from apps.training.models import TrainingRun
from apps.workers.models import Worker


@require_GET
@project_view(Right.RUNS_READ)
def list_runs(request: HttpRequest, scene: Scene) -> HttpResponse:
    points, older = training.find_runs(scene.project, before=read_number(request, "before"))
    batches = training.find_open_batches(scene.project)
    context = {"points": points, "older": older, "batches": batches, "fragments": {"runs"}}
    return show(request, scene, "runs", context)


@require_GET
@project_view(Right.RUNS_READ)
def show_run(request: HttpRequest, scene: Scene, run_id: int) -> HttpResponse:
    view = training.show_run(scene.project, run_id)
    if view is None:
        raise Http404(f"no run {run_id}")
    return show(request, scene, "run", {"view": view, "run": view.run, "fragments": {"run"}})


@require_POST
@project_view(Right.RUNS_WRITE)
def cancel_run(request: HttpRequest, scene: Scene, run_id: int) -> HttpResponse:
    run = TrainingRun.objects.filter(project=scene.project, pk=run_id).first()
    if run is None:
        raise Http404(f"no run {run_id}")
    act(request, f"Run {run_id} is cancelled.", lambda: flow.cancel_run(run=run, by=scene.user))
    return leave(scene, "run", run_id)


@require_POST
@project_view(Right.RUNS_WRITE)
def train_now(request: HttpRequest, scene: Scene, name: str) -> HttpResponse:
    """Close the worker's batch with what is in it."""
    worker = _worker_or_404(scene, name)
    act(request, f"Training of {name} is queued.", lambda: flow.close_batch(worker=worker, by=scene.user))
    return leave(scene, "run-list")


@require_GET
@project_view(Right.ADAPTERS_READ)
def list_adapters(request: HttpRequest, scene: Scene) -> HttpResponse:
    adapters, older = training.find_adapters(scene.project, before=read_number(request, "before"))
    deployments = training.find_deployments(scene.project)
    context = {"adapters": adapters, "older": older, "deployments": deployments, "fragments": {"adapters"}}
    return show(request, scene, "adapters", context)


@require_GET
@project_view(Right.ADAPTERS_READ)
def show_adapter(request: HttpRequest, scene: Scene, adapter_id: int) -> HttpResponse:
    view = training.show_adapter(scene.project, adapter_id)
    if view is None:
        raise Http404(f"no adapter {adapter_id}")
    return show(request, scene, "adapter", {"view": view, "adapter": view.adapter, "fragments": {"adapter"}})


@require_POST
@project_view(Right.ADAPTERS_WRITE)
def promote_adapter(request: HttpRequest, scene: Scene, adapter_id: int) -> HttpResponse:
    adapter = Adapter.objects.filter(project=scene.project, pk=adapter_id).select_related("worker").first()
    if adapter is None:
        raise Http404(f"no adapter {adapter_id}")
    act(request, f"{adapter.name} serves {adapter.worker}.", lambda: flow.promote(adapter=adapter, by=scene.user))
    return leave(scene, "adapter", adapter_id)


@require_POST
@project_view(Right.ADAPTERS_WRITE)
def roll_back(request: HttpRequest, scene: Scene, name: str) -> HttpResponse:
    worker = _worker_or_404(scene, name)
    act(request, f"{name} is rolled back.", lambda: flow.roll_back(worker=worker, by=scene.user))
    return leave(scene, "adapter-list")


def _worker_or_404(scene: Scene, name: str) -> Worker:
    worker = Worker.objects.filter(project=scene.project, name=name).first()
    if worker is None:
        raise Http404(f"no worker {name}")
    return worker
