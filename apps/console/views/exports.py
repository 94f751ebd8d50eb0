"""Taking home what is in a project."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.rights import Right
from apps.base.errors import TentalisError
from apps.console.exports.delivery import begin_export, deliver
from apps.console.exports.sources import SOURCES
from apps.console.exports.training_sets import SETS, say_why_empty
from apps.console.selectors.exports import find_exports
from apps.console.selectors.workers import find_worker_names
from apps.console.views.frame import Scene, found_or_404, leave, project_view, require, show


@require_GET
@project_view(Right.TASKS_READ)
def show_exports(request: HttpRequest, scene: Scene) -> HttpResponse:
    context = {
        "sources": [
            (source, say_why_empty(scene.project, scene.user) if source.name in SETS else "")
            for source in SOURCES.values()
            if scene.may(source.right)
        ],
        "workers": find_worker_names(scene.project),
        "made": find_exports(scene.project, only_by=None if scene.may(Right.AUDIT_READ) else scene.user),
        "fragments": {"exports"},
    }
    return show(request, scene, "exports", context)


@require_POST
@project_view()
def export(request: HttpRequest, scene: Scene, name: str) -> HttpResponse:
    """Send one source; `format`, `plain` (the data alone, no archive with a manifest) and the source's filters."""
    source = found_or_404(SOURCES.get(name), f"no export {name}")
    require(scene, source.right)
    filters = {key: value for key in source.filters if (value := request.POST.get(key, "").strip())}
    try:
        begun = begin_export(
            source=source,
            format=request.POST.get("format", "jsonl"),
            filters=filters,
            project=scene.project,
            by=scene.user,
        )
    except TentalisError as error:
        messages.error(request, str(error))
        return leave(scene, "exports")
    return deliver(request, begun, is_archive=request.POST.get("plain") != "on")  # type: ignore[return-value]
