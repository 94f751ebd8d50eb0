"""The dashboard: how the worker has learned, and what is going on."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from apps.accounts.rights import Right
from apps.console.selectors import work
from apps.console.selectors.dashboard import glance
from apps.console.selectors.workers import choose_worker
from apps.console.views.frame import Scene, project_view, show
from apps.reports.learning_curve import find_learning

RECENT = 8


@require_GET
@project_view(Right.TASKS_READ)
def show_dashboard(request: HttpRequest, scene: Scene) -> HttpResponse:
    worker, workers = choose_worker(scene.project, request.GET.get("worker", ""))
    seen = glance(scene.project)
    context = {
        "worker": worker,
        "batch": seen.filling.get(worker.pk) if worker else None,
        "workers": workers,
        "learning": find_learning(worker) if worker else None,
        "counts": work.count_open_tasks(scene.project),
        "tasks": work.tasks_of(scene.project).order_by("-id")[:RECENT],
        "glance": seen,
        "fragments": {"dashboard"},
    }
    return show(request, scene, "dashboard", context)
