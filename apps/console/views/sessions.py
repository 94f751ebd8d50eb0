"""Sessions: conversations that went through the gateway."""

from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_GET

from apps.accounts.rights import Right
from apps.console.selectors import exchange as exchanges
from apps.console.selectors import sessions
from apps.console.selectors.trace_tree import read_tree
from apps.console.selectors.workers import find_worker_names
from apps.console.views.frame import Scene, found_or_404, leave, project_view, read_number, show
from apps.console.views.training import read_choice

STATES = ["open", "closed"]
MOST_KEY = 200
UUID_CHARS = 36


@require_GET
@project_view(Right.ATTEMPTS_READ)
def list_sessions(request: HttpRequest, scene: Scene) -> HttpResponse:
    typed = {name: request.GET.get(name, "").strip()[:MOST_KEY] for name in ("key", "worker", "end_user")}
    if found := _find_call(scene, typed["key"]):
        return leave(scene, "exchange", found)
    state, trouble = read_choice(request, "state", STATES), request.GET.get("trouble") == "1"
    before = read_number(request, "before")
    rows, older = sessions.find_sessions(scene.project, **typed, state=state, with_trouble=trouble, before=before)
    context = {
        "rows": rows,
        "older": older,
        **typed,
        "state": state,
        "trouble": trouble,
        "is_filtered": bool(any(typed.values()) or state or trouble),
        "gateway_url": find_gateway_url(request) if not rows else "",
        "workers": [] if rows else find_worker_names(scene.project)[:1],
        "fragments": {"sessions"},
    }
    return show(request, scene, "sessions", context)


@require_GET
@project_view(Right.ATTEMPTS_READ)
def show_session(request: HttpRequest, scene: Scene, session_id: int) -> HttpResponse:
    after = read_number(request, "after")
    view = found_or_404(sessions.show_session(scene.project, session_id, after=after), f"no session {session_id}")
    context = {
        "view": view,
        "session": view.session,
        "tree": read_tree(view.session) if after is None else None,
        "after": after,
        "fragments": {"session"},
    }
    return show(request, scene, "session", context)


@require_GET
@project_view(Right.ATTEMPTS_READ)
def show_exchange(request: HttpRequest, scene: Scene, exchange_id: int) -> HttpResponse:
    """One call, token by token. With `words` the server is asked what the tokens write."""
    asked = request.GET.get("words") == "1"
    view = _exchange_or_404(scene, exchange_id, ask=asked)
    context = {
        "view": view,
        "exchange": view.exchange,
        "asked": asked,
        "shows_prompt": request.GET.get("prompt") == "1",
        "fragments": {"exchange_tokens"},
    }
    return show(request, scene, "exchange", context)


@require_GET
@project_view(Right.ATTEMPTS_READ)
def download_exchange(request: HttpRequest, scene: Scene, exchange_id: int) -> HttpResponse:
    """The call as programs read it."""
    view = _exchange_or_404(scene, exchange_id)
    answer = JsonResponse(exchanges.write_json(view), json_dumps_params={"ensure_ascii": False, "indent": 1})
    answer["Content-Disposition"] = f'attachment; filename="exchange-{exchange_id}.json"'
    return answer


def _exchange_or_404(scene: Scene, exchange_id: int, *, ask: bool = False) -> exchanges.ExchangeView:
    return found_or_404(exchanges.show_exchange(scene.project, exchange_id, ask=ask), f"no exchange {exchange_id}")


def _find_call(scene: Scene, text: str) -> int | None:
    """A call, by the id that its caller was told."""
    try:
        return exchanges.find_by_public_id(scene.project, UUID(text)) if len(text) == UUID_CHARS else None
    except ValueError:
        return None


def find_gateway_url(request: HttpRequest) -> str:
    """Where agents reach the gateway, as far as the console can tell: at its port, on the host one sees this at."""
    host = request.get_host().rpartition(":")[0] or request.get_host()
    return f"{request.scheme}://{host}:{settings.TENTALIS['GATEWAY_PORT']}"
