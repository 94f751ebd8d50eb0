"""What managers learnt from audits: one fit of it, and back to what was before."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.rights import Right
from apps.console.selectors.managers import show_fit
from apps.console.views.frame import Scene, act, found_or_404, leave, project_view, show
from apps.training import managers
from apps.training.models import ManagerRun


@require_GET
@project_view(Right.RUNS_READ)
def show_manager_run(request: HttpRequest, scene: Scene, fit_id: int) -> HttpResponse:
    view = found_or_404(show_fit(scene.project, fit_id), f"no manager run {fit_id}")
    is_used = view.row.run.state == ManagerRun.State.APPLIED
    context = {
        "view": view,
        "row": view.row,
        "run": view.row.run,
        "is_adapter": view.row.run.kind == ManagerRun.Kind.ADAPTER,
        "may_roll_back": is_used and scene.may(Right.RUNS_WRITE),
        "fragments": {"manager_run"},
    }
    return show(request, scene, "manager_run", context)


@require_POST
@project_view(Right.RUNS_WRITE)
def roll_back_manager(request: HttpRequest, scene: Scene, fit_id: int) -> HttpResponse:
    run = get_object_or_404(ManagerRun.objects.select_related("project"), project=scene.project, pk=fit_id)
    reason = request.POST.get("reason", "")
    act(
        request,
        _("It judges by what was before again."),
        lambda: managers.roll_back_manager(run=run, by=scene.user, reason=reason),
    )
    return leave(scene, "manager-run", fit_id)
