"""One's own console: preferences, the switch between light and dark, saved views, the tour."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import NoReverseMatch, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.rights import Right
from apps.base.errors import TentalisError
from apps.console.forms_house import KeysForm, PreferenceForm
from apps.console.glossary import GLOSSARY, TITLES, find_terms
from apps.console.middleware import THEME_COOKIE
from apps.console.models import TOUR_DISMISSED, SavedView
from apps.console.preferences import change_keys, change_preference, delete_view, save_view
from apps.console.views.frame import Scene, act, fill_in, leave, posted, project_view, require, show

YEAR_S = 365 * 24 * 3600


@require_http_methods(["GET", "POST"])
@never_cache
@login_required
def show_preferences(request: HttpRequest) -> HttpResponse:
    preference = request.preference  # type: ignore[attr-defined]
    form = PreferenceForm(posted(request), preference=preference)
    user: Any = request.user
    _done, status = fill_in(request, form, lambda: change_preference(user=user, **form.changes))
    if status is None:
        messages.success(request, _("Your preferences are saved."))
        return _remember_theme(redirect("console:preferences"), form.cleaned_data["theme"], request)
    return render(request, "console/preferences.html", {"form": form}, status=status)


@require_http_methods(["GET", "POST"])
@never_cache
@login_required
def show_keys(request: HttpRequest) -> HttpResponse:
    """What each key does, and other keys for it."""
    preference = request.preference  # type: ignore[attr-defined]
    form = KeysForm(posted(request), chosen=preference.keys)
    user: Any = request.user
    if "reset" in request.POST:
        change_keys(user=user, keys={})
        messages.success(request, _("Every key is the built-in one again."))
        return redirect("console:keys")
    _done, status = fill_in(request, form, lambda: change_keys(user=user, keys=form.chosen))
    if status is None:
        messages.success(request, _("Your keys are saved."))
        return redirect("console:keys")
    return render(request, "console/keys.html", {"form": form, "preference": preference}, status=status)


@require_POST
@login_required
def choose_theme(request: HttpRequest) -> HttpResponse:
    """The switch in the frame: keeps the choice and shows the same page in it."""
    theme = request.POST.get("theme", "")
    try:
        change_preference(user=request.user, theme=theme)  # type: ignore[arg-type]
    except TentalisError as error:
        raise Http404(str(error)) from None
    return _remember_theme(HttpResponseRedirect(find_way_back(request)), theme, request)


@require_POST
@project_view()
def keep_view(request: HttpRequest, scene: Scene) -> HttpResponse:
    """Save the filter of the list one is on."""
    page, query = request.POST.get("page", ""), request.POST.get("query", "")
    try:
        back = reverse(f"console:{page}", args=(scene.project.slug,))
    except NoReverseMatch:
        raise Http404(f"no list {page}") from None
    name, is_team = request.POST.get("name", ""), request.POST.get("team") == "on"
    if is_team:
        require(scene, Right.TASKS_WRITE)
    act(
        request,
        _("Saved. You find it above the list."),
        lambda: save_view(project=scene.project, by=scene.user, page=page, name=name, query=query, is_team=is_team),
    )
    return HttpResponseRedirect(f"{back}?{query}" if query else back)


@require_POST
@project_view()
def drop_view(request: HttpRequest, scene: Scene, view_id: int) -> HttpResponse:
    view = SavedView.objects.filter(project=scene.project, pk=view_id).select_related("project").first()
    if view is None or view.owner_id not in (None, scene.user.pk):
        raise Http404(f"no saved view {view_id}")
    if view.owner_id is None:
        require(scene, Right.TASKS_WRITE)
    act(request, _("The saved view is deleted."), lambda: delete_view(view=view, by=scene.user))
    return HttpResponseRedirect(reverse(f"console:{view.page}", args=(scene.project.slug,)))


@require_POST
@project_view()
def dismiss_tour(request: HttpRequest, scene: Scene) -> HttpResponse:
    change_preference(user=scene.user, tour_step=TOUR_DISMISSED)
    messages.info(request, _("First steps are hidden. Your preferences can show them again."))
    return leave(scene, "project")


def find_way_back(request: HttpRequest) -> str:
    """Where a form of the frame was sent from, if that is one of our pages; else the first one."""
    given = request.POST.get("next", "")
    hosts = {request.get_host()}
    if given.startswith("/") and url_has_allowed_host_and_scheme(given, hosts, require_https=request.is_secure()):
        return given
    return reverse("console:dashboard")


def _remember_theme(response: HttpResponse, theme: str, request: HttpRequest) -> HttpResponse:
    """In the browser too, for the pages before signing in."""
    response.set_cookie(THEME_COOKIE, theme, max_age=YEAR_S, samesite="Lax", httponly=True, secure=request.is_secure())
    return response


@require_GET
@project_view()
def show_glossary(request: HttpRequest, scene: Scene) -> HttpResponse:
    """What the words mean; those of the page one comes from first."""
    context = {
        "here": find_terms(request.GET.get("page", "")),
        "groups": [(name, TITLES[name], terms) for name, terms in GLOSSARY.items()],
    }
    return show(request, scene, "glossary", context)
