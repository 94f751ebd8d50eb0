"""Where tasks are: the environments of this installation, and whether anything may be trained there."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods

from apps.accounts.rights import Right
from apps.console.forms_repo_tasks import RepoTasksForm
from apps.console.selectors import environments
from apps.console.views.frame import (
    Confirmation,
    Scene,
    act,
    ask,
    fill_in,
    found_or_404,
    leave,
    posted,
    project_view,
    read_number,
    require,
    show,
)
from apps.pipeline import admitting
from apps.worlds.models import RepoTaskAdmission
from apps.worlds.repos.removing import remove_task
from tentalis.limits import LIMITS


@require_GET
@project_view(Right.TASKS_READ)
def list_environments(request: HttpRequest, scene: Scene) -> HttpResponse:
    context = {"rows": environments.list_environments(), "unused": environments.list_unused()}
    return show(request, scene, "environments", context)


@require_GET
@project_view(Right.TASKS_READ)
def show_environment(request: HttpRequest, scene: Scene, environment: str) -> HttpResponse:
    """One, with its newest certificate, or with the one that `?certificate=` names."""
    asked = read_number(request, "certificate")
    found = environments.view_environment(scene.project, environment, certificate_id=asked)
    view = found_or_404(found, f"no environment {environment}, or no such certificate of it")
    return show(request, scene, "environment", {"view": view, "certificate": view.certificate})


@require_http_methods(["GET", "POST"])
@project_view(Right.EVALS_READ)
def list_repo_tasks(request: HttpRequest, scene: Scene) -> HttpResponse:
    """The tasks of own repositories; with `?remove=NAME`, what removing one will do, and the button that does it."""
    name = request.GET.get("remove", "")
    if request.method == "POST":
        require(scene, Right.PROJECTS_WRITE)
        done = _("%(name)s is removed.") % {"name": name}
        act(request, done, lambda: remove_task(name=name, by=scene.user))
        return leave(scene, "repo-task-list")
    if name:
        return ask(request, scene, _say_removal(scene, name))
    found, following = environments.list_repo_tasks(start=read_number(request, "start") or 0)
    context = {
        "rows": found,
        "following": following,
        "admissions": environments.list_admissions(),
        "fragments": {"repo_task_admissions"},
    }
    return show(request, scene, "repo_tasks", context)


@require_http_methods(["GET", "POST"])
@project_view(Right.PROJECTS_WRITE)
def add_repo_tasks(request: HttpRequest, scene: Scene) -> HttpResponse:
    """Hand tasks of a repository in."""
    form = RepoTasksForm(posted(request), request.FILES or None)
    made, status = fill_in(request, form, lambda: _hand_in(scene, form))
    if made is not None:
        count = len(made)
        words = ngettext("%(n)s task is looked at.", "%(n)s tasks are looked at.", count) % {"n": count}
        messages.success(request, words)
        return leave(scene, "repo-task-list")
    context = {
        "form": form,
        "why_not": environments.say_why_not_added(by=scene.user),
        "upload_path": reverse("api:upload", args=("0" * 64,)),
        "most_bytes": LIMITS.web_body_bytes,
    }
    return show(request, scene, "repo_task_add", context, status=status or 200)


def _hand_in(scene: Scene, form: RepoTasksForm) -> list[RepoTaskAdmission]:
    rows, handed_in = form.keep(by=scene.user)
    return admitting.hand_in(rows=rows, split=form.cleaned_data["split"], by=scene.user, **handed_in)


def _say_removal(scene: Scene, name: str) -> Confirmation:
    lines = [
        _("No task of any project can be done or judged with it again; those that were keep what they came to."),
        _("What was learnt from it stays."),
    ]
    return Confirmation(
        title=_("Remove %(name)s") % {"name": name[:140]},
        lines=lines,
        button=_("Remove"),
        back=reverse("console:repo-task-list", args=(scene.project.slug,)),
        back_words=_("Tasks of own repositories"),
        why_not=environments.say_why_not_removed(name, by=scene.user),
    )
