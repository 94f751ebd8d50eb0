"""Where tasks are: the environments of this installation, and whether anything may be trained there."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from apps.accounts.rights import Right
from apps.console.selectors import environments
from apps.console.views.frame import Scene, found_or_404, project_view, read_number, show


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
