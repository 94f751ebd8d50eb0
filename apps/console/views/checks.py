"""What a right answer is: a project's checks, written in a form and tried on what was answered."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.rights import Right
from apps.checks.models import NamedCheck
from apps.checks.services import set_default, write_check
from apps.console.forms_checks import CheckForm
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
from apps.inference.judges import VOTES
from apps.tasks.checking import MOST_ASKED, remove_check, say_check_stays, try_check
from apps.worlds.registry import name_choices

SHOWN = 100


@require_http_methods(["GET", "POST"])
@project_view(Right.EVALS_WRITE)
def show_checks(request: HttpRequest, scene: Scene) -> HttpResponse:
    """The list, and a form that tries a check on stored answers or keeps it."""
    is_tried = "try" in request.POST
    form = CheckForm(posted(request), is_tried=is_tried, initial={"join": "all"})

    def do() -> object:
        if is_tried:
            return try_check(project=scene.project, spec=form.spec, by=scene.user)
        said = form.cleaned_data
        return write_check(project=scene.project, name=said["name"], about=said["about"], spec=form.spec, by=scene.user)

    found, status = fill_in(request, form, do)
    if status is None and not is_tried:
        act(request, _("%(check)s is kept.") % {"check": found}, lambda: None)
        return leave(scene, "check-list")
    context = {
        "rows": NamedCheck.objects.filter(project=scene.project)[:SHOWN],
        "environments": name_choices(),
        "form": form,
        "most_asked": MOST_ASKED,
        "votes": VOTES,
        "tried": found if is_tried else None,
    }
    return show(request, scene, "checks", context, status=status or 200)


@require_POST
@project_view(Right.EVALS_WRITE)
def change_default(request: HttpRequest, scene: Scene, check_id: int) -> HttpResponse:
    check = _find(scene, check_id)
    environment = request.POST.get("default_for", "")
    words = _("%(check)s checks %(what)s now.") % {"check": check, "what": environment or _("nothing by default")}
    act(request, words, lambda: set_default(check=check, environment=environment, by=scene.user))
    return leave(scene, "check-list")


@require_http_methods(["GET", "POST"])
@project_view(Right.EVALS_WRITE)
def delete_check(request: HttpRequest, scene: Scene, check_id: int) -> HttpResponse:
    check = _find(scene, check_id)
    if request.method == "GET":
        return ask(request, scene, _ask_to_delete(scene, check))
    act(request, _("%(check)s is deleted.") % {"check": check}, lambda: remove_check(check=check, by=scene.user))
    return leave(scene, "check-list")


def _ask_to_delete(scene: Scene, check: NamedCheck) -> Confirmation:
    return Confirmation(
        title=_("Delete %(check)s?") % {"check": check},
        lines=(
            _("No task, item or other check names this version."),
            _("It cannot be brought back."),
        ),
        button=_("Delete"),
        back=find_page(scene, "check-list"),
        back_words=_("Checks"),
        why_not=say_check_stays(check),
    )


def _find(scene: Scene, check_id: int) -> NamedCheck:
    return get_object_or_404(NamedCheck.objects.select_related("project"), project=scene.project, pk=check_id)
