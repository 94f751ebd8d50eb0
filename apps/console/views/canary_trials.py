"""Canaries and shadow tests of an adapter, each after a page that says what will happen."""

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from apps.accounts.rights import Right
from apps.adapters import canary, shadows
from apps.adapters.models import Deployment, Shadow
from apps.adapters.selectors import find_deployment
from apps.console.operation_forms import CanaryForm
from apps.console.views.frame import Scene, act, fill_in, found_or_404, leave, posted, project_view, show
from apps.console.views.trace import adapter_or_404
from apps.pipeline import canary_trials, shadow_trials
from tentalis.core.learning.gate import GatePolicy


@require_http_methods(["GET", "POST"])
@project_view(Right.ADAPTERS_WRITE)
def start_canary(request: HttpRequest, scene: Scene, adapter_id: int) -> HttpResponse:
    adapter, form = adapter_or_404(scene, adapter_id), CanaryForm(posted(request))
    _done, status = fill_in(
        request, form, lambda: canary_trials.start_canary(adapter=adapter, by=scene.user, **form.cleaned_data)
    )
    if status is None:
        return leave(scene, "adapter", adapter_id)
    deployment = find_deployment(adapter.worker, end_user=adapter.end_user)
    margin = round(100 * GatePolicy.from_json(scene.project.gate_policy).margin)
    context = {"adapter": adapter, "deployment": deployment, "form": form, "margin": margin}
    return show(request, scene, "adapter_canary", context, status=status)


@require_http_methods(["GET", "POST"])
@project_view(Right.ADAPTERS_WRITE)
def stop_canary(request: HttpRequest, scene: Scene, name: str) -> HttpResponse:
    found = Deployment.objects.filter(worker__project=scene.project, worker__name=name, canary__isnull=False)
    deployment = found_or_404(
        found.select_related("canary", "adapter", "worker__project").first(), f"no canary of {name}"
    )
    if request.method == "POST":
        adapter_id = deployment.canary_id
        act(request, _("Canary stopped."), lambda: canary.stop_canary(deployment=deployment, by=scene.user))
        return leave(scene, "adapter", adapter_id)
    return show(request, scene, "adapter_canary_stop", {"deployment": deployment})


@require_http_methods(["GET", "POST"])
@project_view(Right.ADAPTERS_WRITE)
def start_shadow(request: HttpRequest, scene: Scene, adapter_id: int) -> HttpResponse:
    adapter, form = adapter_or_404(scene, adapter_id), CanaryForm(posted(request))
    _done, status = fill_in(
        request, form, lambda: shadow_trials.start_shadow(adapter=adapter, by=scene.user, **form.cleaned_data)
    )
    if status is None:
        return leave(scene, "adapter", adapter_id)
    context = {"adapter": adapter, "form": form, "shadow": None}
    return show(request, scene, "adapter_shadow", context, status=status)


@require_http_methods(["GET", "POST"])
@project_view(Right.ADAPTERS_WRITE)
def stop_shadow(request: HttpRequest, scene: Scene, name: str) -> HttpResponse:
    running = Shadow.objects.filter(worker__project=scene.project, worker__name=name, state=Shadow.State.RUNNING)
    shadow = found_or_404(running.select_related("adapter", "worker__project").first(), f"no shadow of {name}")
    if request.method == "POST":
        act(request, _("Shadow test stopped."), lambda: shadows.stop_shadow(shadow=shadow, by=scene.user))
        return leave(scene, "adapter", shadow.adapter_id)
    return show(request, scene, "adapter_shadow", {"adapter": shadow.adapter, "shadow": shadow})
