"""Sessions: conversations that went through the gateway."""

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from apps.accounts.rights import Right
from apps.console.selectors import sessions
from apps.console.views.frame import Scene, project_view, read_number, show
from apps.console.views.training import read_choice

STATES = ["open", "closed"]
MOST_KEY = 200


@require_GET
@project_view(Right.ATTEMPTS_READ)
def list_sessions(request: HttpRequest, scene: Scene) -> HttpResponse:
    key, worker = request.GET.get("key", "").strip()[:MOST_KEY], request.GET.get("worker", "").strip()[:MOST_KEY]
    state = read_choice(request, "state", STATES)
    before = read_number(request, "before")
    rows, older = sessions.find_sessions(scene.project, worker=worker, key=key, state=state, before=before)
    context = {
        "rows": rows,
        "older": older,
        "key": key,
        "worker": worker,
        "state": state,
        "is_filtered": bool(key or worker or state),
        "fragments": {"sessions"},
    }
    return show(request, scene, "sessions", context)


@require_GET
@project_view(Right.ATTEMPTS_READ)
def show_session(request: HttpRequest, scene: Scene, session_id: int) -> HttpResponse:
    after = read_number(request, "after")
    view = sessions.show_session(scene.project, session_id, after=after)
    if view is None:
        raise Http404(f"no session {session_id}")
    return show(request, scene, "session", {"view": view, "session": view.session, "after": after})
