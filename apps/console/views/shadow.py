"""A shadow: begun and ended after a page that says what will happen."""

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from apps.accounts.rights import Right
from apps.adapters.models import Shadow
from apps.adapters.selectors import find_deployment
from apps.base.errors import TentalisError
from apps.console.operation_forms import CanaryForm, show_error
from apps.console.views.frame import Scene, act, leave, posted, project_view, show
from apps.console.views.trace import adapter_or_404
from apps.pipeline import shadows


@require_http_methods(["GET", "POST"])
@project_view(Right.ADAPTERS_WRITE)
def start_shadow(request: HttpRequest, scene: Scene, adapter_id: int) -> HttpResponse:
    adapter, form, status = adapter_or_404(scene, adapter_id), CanaryForm(posted(request)), 200
    if request.method == "POST":
        status = 400
        if form.is_valid():
            try:
                shadows.start_shadow(adapter=adapter, percent=form.cleaned_data["percent"], by=scene.user)
            except TentalisError as error:
                show_error(form, error)
                status = error.status
            else:
                return leave(scene, "adapter", adapter_id)
    deployment = find_deployment(adapter.worker)
    context = {"adapter": adapter, "deployment": deployment, "form": form, "shadow": None}
    return show(request, scene, "adapter_shadow", context, status=status)


@require_http_methods(["GET", "POST"])
@project_view(Right.ADAPTERS_WRITE)
def stop_shadow(request: HttpRequest, scene: Scene, name: str) -> HttpResponse:
    running = Shadow.objects.filter(worker__project=scene.project, worker__name=name, state=Shadow.State.RUNNING)
    shadow = running.select_related("adapter", "worker__project").first()
    if shadow is None:
        raise Http404(f"no shadow of {name}")
    if request.method == "POST":
        act(request, _("It is in no shadow any more."), lambda: shadows.stop_shadow(shadow=shadow, by=scene.user))
        return leave(scene, "adapter", shadow.adapter_id)
    return show(request, scene, "adapter_shadow", {"adapter": shadow.adapter, "shadow": shadow})
