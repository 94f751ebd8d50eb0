"""A canary: begun and ended after a page that says what will happen."""

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from apps.accounts.rights import Right
from apps.adapters.models import Deployment
from apps.adapters.panels import read_gate_policy
from apps.adapters.selectors import find_deployment
from apps.base.errors import TentalisError
from apps.console.operation_forms import CanaryForm, show_error
from apps.console.views.frame import Scene, act, leave, posted, project_view, show
from apps.console.views.trace import adapter_or_404
from apps.pipeline import canary


@require_http_methods(["GET", "POST"])
@project_view(Right.ADAPTERS_WRITE)
def start_canary(request: HttpRequest, scene: Scene, adapter_id: int) -> HttpResponse:
    adapter = adapter_or_404(scene, adapter_id)
    form = CanaryForm(posted(request))
    status = 200
    if request.method == "POST":
        status = 400
        if form.is_valid():
            try:
                canary.start_canary(adapter=adapter, percent=form.cleaned_data["percent"], by=scene.user)
            except TentalisError as error:
                show_error(form, error)
                status = error.status
            else:
                return leave(scene, "adapter", adapter_id)
    deployment = find_deployment(adapter.worker, end_user=adapter.end_user)
    policy = read_gate_policy(scene.project)
    context = {"adapter": adapter, "deployment": deployment, "form": form, "margin": round(100 * policy.margin)}
    return show(request, scene, "adapter_canary", context, status=status)


@require_http_methods(["GET", "POST"])
@project_view(Right.ADAPTERS_WRITE)
def stop_canary(request: HttpRequest, scene: Scene, name: str) -> HttpResponse:
    found = Deployment.objects.filter(worker__project=scene.project, worker__name=name, canary__isnull=False)
    deployment = found.select_related("canary", "adapter", "worker__project").first()
    if deployment is None:
        raise Http404(f"no canary of {name}")
    if request.method == "POST":
        adapter_id = deployment.canary_id
        act(request, _("The trial is over."), lambda: canary.stop_canary(deployment=deployment, by=scene.user))
        return leave(scene, "adapter", adapter_id)
    return show(request, scene, "adapter_canary_stop", {"deployment": deployment})
