"""Projects as such: which there are, a new one, and one that is put into the archive or taken out of it."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from apps.accounts.archiving import archive_project, unarchive_project
from apps.accounts.models import Project
from apps.accounts.rights import Right
from apps.accounts.services import create_project, may_make_projects
from apps.console.forms_house import ProjectForm
from apps.console.selectors.house import OpenWork, count_open_work
from apps.console.views.frame import Confirmation, Scene, act, ask, fill_in, find_page, leave, posted, project_view

MOST = 200


@require_GET
@never_cache
@login_required
def list_projects(request: HttpRequest) -> HttpResponse:
    """One's projects; those in the archive where `?archived=1` asks for them."""
    is_archived = request.GET.get("archived") == "1"
    rows = Project.objects.visible_to(request.user).filter(archived_at__isnull=not is_archived).order_by("name")
    user: Any = request.user
    context = {"rows": rows[:MOST], "is_archived": is_archived, "may_make": may_make_projects(user)}
    return render(request, "console/projects.html", context)


@require_http_methods(["GET", "POST"])
@never_cache
@login_required
def make_project(request: HttpRequest) -> HttpResponse:
    """A new project; who makes it owns it."""
    user: Any = request.user
    if not may_make_projects(user):
        raise PermissionDenied(
            "Projects are made by admins of the installation, and by people to whom they granted it."
        )
    form = ProjectForm(posted(request))
    project, status = fill_in(request, form, lambda: create_project(by=user, **form.cleaned_data))
    if status is None:
        messages.success(request, _("%(name)s is there. It is yours.") % {"name": project.name})
        return redirect("console:connect", project.slug)
    return render(request, "console/project_new.html", {"form": form}, status=status)


@require_http_methods(["GET", "POST"])
@project_view(Right.PROJECTS_WRITE)
def archive(request: HttpRequest, scene: Scene) -> HttpResponse:
    project, name = scene.project, {"name": scene.project.name}
    if request.method == "POST":
        act(request, _("%(name)s is archived.") % name, lambda: archive_project(project=project, by=scene.user))
        return leave(scene, "project")
    question = Confirmation(
        title=_("Archive %(name)s") % name,
        lines=[
            _("It takes no new task, by whatever way, and the gateway answers no call for it."),
            *_say_open_work(count_open_work(project)),
            _("No training starts. One that is running is finished."),
            _("Nothing is deleted, all pages stay readable, and reviews can still be given."),
            _("Lists of projects leave it out, unless they are asked for the archive."),
            _("You can take it out of the archive at any time, as it was."),
        ],
        button=_("Archive the project"),
        back=find_page(scene, "settings"),
        back_words=_("Settings"),
        why_not=_("It is archived already.") if project.archived_at else "",
    )
    return ask(request, scene, question)


@require_http_methods(["GET", "POST"])
@project_view(Right.PROJECTS_WRITE)
def unarchive(request: HttpRequest, scene: Scene) -> HttpResponse:
    project, name = scene.project, {"name": scene.project.name}
    if request.method == "POST":
        done = _("%(name)s takes tasks and gateway calls again.") % name
        act(request, done, lambda: unarchive_project(project=project, by=scene.user))
        return leave(scene, "project")
    question = Confirmation(
        title=_("Take %(name)s out of the archive") % name,
        lines=[
            _("It takes tasks and gateway calls again, with the workers, members and tokens it has."),
            _("Trainings that wait go on when their turn comes."),
        ],
        button=_("Take it out of the archive"),
        back=find_page(scene, "project"),
        back_words=_("Dashboard"),
        why_not="" if project.archived_at else _("It is not archived."),
        is_dangerous=False,
    )
    return ask(request, scene, question)


def _say_open_work(work: OpenWork) -> list[str]:
    """What is under way, a sentence each, and what becomes of it."""
    said = []
    if work.tasks:
        words = ngettext(
            "One task is under way: it is finished.",
            "%(count)d tasks are under way: they are finished.",
            work.tasks,
        )
        said.append(words % {"count": work.tasks})
        said.append(_("A task whose agent calls through the gateway fails instead; it can be replayed later."))
    if work.reviews:
        words = ngettext("One review is open and stays so.", "%(count)d reviews are open and stay so.", work.reviews)
        said.append(words % {"count": work.reviews})
    if work.runs:
        words = ngettext(
            "One run waits to be trained, until the project is taken out of the archive.",
            "%(count)d runs wait to be trained, until the project is taken out of the archive.",
            work.runs,
        )
        said.append(words % {"count": work.runs})
    return said or [_("No work is under way.")]
