"""Workers: who they are, what serves them, what they do; made and changed."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.rights import Right
from apps.base.errors import TentalisError
from apps.console.operation_forms import WorkerForm, read_worker
from apps.console.selectors import workers
from apps.console.views.frame import Scene, fill_in, leave, posted, project_view, read_number, show
from apps.console.views.training import worker_or_404
from apps.workers import bases, services
from apps.workers.kinds import KINDS, find_kind


@require_GET
@project_view(Right.WORKERS_READ)
def list_workers(request: HttpRequest, scene: Scene) -> HttpResponse:
    context = {
        "rows": workers.find_workers(scene.project),
        "ensembles": scene.project.ensembles.all(),
        "fragments": {"workers", "ensembles"},
    }
    return show(request, scene, "workers", context)


@require_GET
@project_view(Right.WORKERS_READ)
def show_worker(request: HttpRequest, scene: Scene, name: str) -> HttpResponse:
    view = workers.show_worker(worker_or_404(scene, name))
    return show(request, scene, "worker", {"view": view, "worker": view.worker, "fragments": {"worker"}})


@require_POST
@project_view(Right.WORKERS_WRITE)
def compare_base(request: HttpRequest, scene: Scene, name: str) -> HttpResponse:
    """Compare its base weights with its model server again."""
    worker = worker_or_404(scene, name)
    try:
        found = bases.compare_base(worker.line)
    except TentalisError as error:
        messages.error(request, str(error))
    else:
        (messages.success if found.is_good else messages.error)(request, found.words)
    return leave(scene, "worker", name)


@require_http_methods(["GET", "POST"])
@project_view(Right.WORKERS_WRITE)
def create_worker(request: HttpRequest, scene: Scene) -> HttpResponse:
    kind = (request.POST if request.method == "POST" else request.GET).get("kind", "")
    if kind not in KINDS:
        kinds = [(each.name, each.label, each.about) for each in KINDS.values()]
        wrong = 400 if kind or request.method == "POST" else 200
        return show(request, scene, "worker_kind", {"kinds": kinds}, status=wrong)
    initial = {"provider": read_number(request, "provider")}
    form = WorkerForm(posted(request), project=scene.project, kind=kind, initial=initial)
    worker, status = fill_in(
        request, form, lambda: services.create_worker(project=scene.project, by=scene.user, **form.values)
    )
    if status is None:
        messages.success(request, _("%(name)s can be given tasks.") % {"name": worker.name})
        if request.GET.get("then") == "connect":
            return leave(scene, "connect")
        return leave(scene, "worker", worker.name)
    context = {"form": form, "worker": None, "kind": find_kind(kind).label}
    return show(request, scene, "worker_form", context, status=status)


@require_http_methods(["GET", "POST"])
@project_view(Right.WORKERS_WRITE)
def change_worker(request: HttpRequest, scene: Scene, name: str) -> HttpResponse:
    worker = worker_or_404(scene, name)
    form = WorkerForm(posted(request), project=scene.project, worker=worker, initial=read_worker(worker))
    _done, status = fill_in(request, form, lambda: services.change_worker(worker=worker, by=scene.user, **form.values))
    if status is None:
        messages.success(request, _("%(name)s is changed.") % {"name": worker.name})
        return leave(scene, "worker", worker.name)
    return show(request, scene, "worker_form", {"form": form, "worker": worker}, status=status)
