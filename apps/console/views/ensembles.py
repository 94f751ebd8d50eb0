"""Ensembles: workers that are asked together; made, changed and removed."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from apps.accounts.rights import Right
from apps.console.forms_ensembles import EnsembleForm, read_ensemble
from apps.console.views.frame import (
    Confirmation,
    Scene,
    act,
    ask,
    fill_in,
    find_page,
    leave,
    posted,
    project_view,
    show,
)
from apps.workers import ensembles
from apps.workers.models import Ensemble


@require_http_methods(["GET", "POST"])
@project_view(Right.WORKERS_WRITE)
def create_ensemble(request: HttpRequest, scene: Scene) -> HttpResponse:
    form = EnsembleForm(posted(request), project=scene.project)
    made, status = fill_in(
        request,
        form,
        lambda: ensembles.create_ensemble(project=scene.project, by=scene.user, **form.cleaned_data),
    )
    if status is None:
        messages.success(request, _("Callers of the gateway can ask for %(model)s.") % {"model": made.model})
        return leave(scene, "worker-list")
    return show(request, scene, "ensemble_form", {"form": form, "ensemble": None}, status=status)


@require_http_methods(["GET", "POST"])
@project_view(Right.WORKERS_WRITE)
def change_ensemble(request: HttpRequest, scene: Scene, name: str) -> HttpResponse:
    ensemble = ensemble_or_404(scene, name)
    form = EnsembleForm(posted(request), project=scene.project, ensemble=ensemble, initial=read_ensemble(ensemble))
    _done, status = fill_in(
        request, form, lambda: ensembles.change_ensemble(ensemble=ensemble, by=scene.user, **form.cleaned_data)
    )
    if status is None:
        messages.success(request, _("%(name)s is changed.") % {"name": ensemble.model})
        return leave(scene, "worker-list")
    return show(request, scene, "ensemble_form", {"form": form, "ensemble": ensemble}, status=status)


@require_http_methods(["GET", "POST"])
@project_view(Right.WORKERS_WRITE)
def delete_ensemble(request: HttpRequest, scene: Scene, name: str) -> HttpResponse:
    ensemble = ensemble_or_404(scene, name)
    if request.method == "GET":
        return ask(request, scene, _ask_to_delete(scene, ensemble))
    done = _("%(name)s is deleted; its members stay.") % {"name": ensemble.model}
    act(request, done, lambda: ensembles.delete_ensemble(ensemble=ensemble, by=scene.user))
    return leave(scene, "worker-list")


def _ask_to_delete(scene: Scene, ensemble: Ensemble) -> Confirmation:
    return Confirmation(
        title=_("Delete %(name)s?") % {"name": ensemble.model},
        lines=(
            _("Callers of the gateway that ask for it are refused from then on."),
            _("Its members stay, and so does what they answered: %(names)s.") % {"names": ", ".join(ensemble.members)},
        ),
        button=_("Delete"),
        back=find_page(scene, "ensemble-change", ensemble.name),
        back_words=ensemble.model,
    )


def ensemble_or_404(scene: Scene, name: str) -> Ensemble:
    found = Ensemble.objects.select_related("project").filter(project=scene.project, name=name).first()
    if found is None:
        raise Http404(f"no ensemble {name}")
    return found
