"""What learning cost beside what it brought."""

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from apps.accounts.rights import Right
from apps.console.selectors.cost_benefit import draw_returns
from apps.console.selectors.workers import choose_worker
from apps.console.views.frame import Scene, project_view, show
from apps.training.cost_benefit import find_returns


@require_GET
@project_view(Right.RUNS_READ)
def show_returns(request: HttpRequest, scene: Scene) -> HttpResponse:
    """Of one worker: the named one, else the one that learned last."""
    name = request.GET.get("worker", "")
    worker, workers = choose_worker(scene.project, name)
    if name and (worker is None or worker.name != name):
        raise Http404(f"no worker {name}")
    found = find_returns(worker) if worker is not None else None
    context = {
        "worker": worker,
        "workers": workers,
        "found": found,
        "drawings": draw_returns(found) if found is not None else [],
        "fragments": {"returns"},
    }
    return show(request, scene, "returns", context)
