"""An adapter under suspicion: put there and released after a page that says what will happen, for a reason."""

from collections.abc import Callable

from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.adapters import services
from apps.adapters.models import Adapter
from apps.base.errors import TentalisError
from apps.console.operation_forms import show_error
from apps.console.views.frame import Scene, leave, posted, project_view, show
from apps.console.views.trace import adapter_or_404

MOST_CHARS = 1000


class ReasonForm(forms.Form):
    """Why."""

    reason = forms.CharField(
        label=_("Reason"),
        max_length=MOST_CHARS,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_("The audit keeps it."),
    )


@require_http_methods(["GET", "POST"])
@project_view(Right.ADAPTERS_WRITE)
def suspect(request: HttpRequest, scene: Scene, adapter_id: int) -> HttpResponse:
    def act(adapter: Adapter, by: User, reason: str) -> None:
        services.suspect(adapter=adapter, by=by, reason=reason)

    return _ask(request, scene, adapter_id, act, is_release=False)


@require_http_methods(["GET", "POST"])
@project_view(Right.ADAPTERS_WRITE)
def release(request: HttpRequest, scene: Scene, adapter_id: int) -> HttpResponse:
    def act(adapter: Adapter, by: User, reason: str) -> None:
        services.release(adapter=adapter, by=by, reason=reason)

    return _ask(request, scene, adapter_id, act, is_release=True)


def _ask(
    request: HttpRequest,
    scene: Scene,
    adapter_id: int,
    act: Callable[[Adapter, User, str], None],
    *,
    is_release: bool,
) -> HttpResponse:
    adapter, form, status = adapter_or_404(scene, adapter_id), ReasonForm(posted(request)), 200
    if request.method == "POST":
        status = 400
        if form.is_valid():
            try:
                act(adapter, scene.user, form.cleaned_data["reason"])
            except TentalisError as error:
                show_error(form, error)
                status = error.status
            else:
                return leave(scene, "adapter", adapter_id)
    context = {"adapter": adapter, "form": form, "is_release": is_release}
    return show(request, scene, "adapter_suspicion", context, status=status)
