"""An adapter under suspicion: put there and released after a page that says what will happen, for a reason."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from apps.accounts.rights import Right
from apps.adapters import services
from apps.console.views.frame import Scene, fill_in, leave, posted, project_view, show
from apps.console.views.trace import adapter_or_404
from tentalis.core.field_limits import MAX_REASON_CHARS


class ReasonForm(forms.Form):
    """Why."""

    reason = forms.CharField(
        label=_("Reason"),
        max_length=MAX_REASON_CHARS,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_("The audit keeps it."),
    )


@require_http_methods(["GET", "POST"])
@project_view(Right.ADAPTERS_WRITE)
def suspect(request: HttpRequest, scene: Scene, adapter_id: int) -> HttpResponse:
    return _ask(request, scene, adapter_id, services.suspect, is_release=False)


@require_http_methods(["GET", "POST"])
@project_view(Right.ADAPTERS_WRITE)
def release(request: HttpRequest, scene: Scene, adapter_id: int) -> HttpResponse:
    return _ask(request, scene, adapter_id, services.release, is_release=True)


def _ask(request: HttpRequest, scene: Scene, adapter_id: int, do: Any, *, is_release: bool) -> HttpResponse:
    adapter, form = adapter_or_404(scene, adapter_id), ReasonForm(posted(request))
    _done, status = fill_in(request, form, lambda: do(adapter=adapter, by=scene.user, **form.cleaned_data))
    if status is None:
        return leave(scene, "adapter", adapter_id)
    context = {"adapter": adapter, "form": form, "is_release": is_release}
    return show(request, scene, "adapter_suspicion", context, status=status)
