"""The way from a new project to its first review: connect, give tasks, say who judges. Each page leads to the next."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.models import Member, Role, User
from apps.accounts.rights import Right
from apps.accounts.services import add_agent, name_within
from apps.accounts.tokens import create_token
from apps.base.errors import TentalisError
from apps.console.forms import show_error
from apps.console.forms_set_up import SCOPES, ConnectTokenForm, JudgesForm, SessionTasksForm
from apps.console.selectors import connecting
from apps.console.views.frame import Scene, fill_in, leave, posted, project_view, read_number, require, show
from apps.console.views.providers import find_provider_or_404
from apps.console.views.sessions import find_gateway_url
from apps.conversations import asked
from apps.feedback import judges
from apps.inference import probes
from apps.pipeline import flow
from apps.workers.bases import compare_base
from apps.workers.models import Worker


@require_GET
@project_view(Right.WORKERS_READ)
def show_connect(request: HttpRequest, scene: Scene) -> HttpResponse:
    """Three ways in, side by side, each with what has arrived by it."""
    return _show_connect(request, scene)


@require_POST
@project_view(Right.TOKENS_WRITE)
def make_token(request: HttpRequest, scene: Scene) -> HttpResponse:
    """An agent and its token; its text is in this answer and nowhere else."""
    require(scene, Right.MEMBERS_WRITE)
    form = ConnectTokenForm(request.POST, purpose=request.POST.get("purpose", ""))
    if not form.is_valid():
        return _show_connect(request, scene, form=form, status=400)
    purpose, name = form.cleaned_data["purpose"], form.cleaned_data["username"]
    try:
        agent = _find_agent(scene, name) or add_agent(project=scene.project, username=name, by=scene.user).user
        token_name = _("%(name)s, made on Connect") % {"name": name}
        _token, text = create_token(
            user=agent, name=token_name, scopes=SCOPES[purpose], project=scene.project, by=scene.user
        )
    except TentalisError as error:
        show_error(form, error)
        return _show_connect(request, scene, form=form, status=error.status)
    return _show_connect(request, scene, made={"purpose": purpose, "name": agent.username, "text": text}, status=201)


@require_POST
@project_view(Right.WORKERS_WRITE)
def test_server(request: HttpRequest, scene: Scene, provider_id: int) -> HttpResponse:
    """Ask a model server what it can, and compare its model with the base weights of each worker on it."""
    provider = find_provider_or_404(scene, provider_id)
    try:
        probe = probes.probe_provider(provider=provider, by=scene.user)
        findings = connecting.say_probe(probe)
        if probe.ok:
            findings += _compare_bases(scene, provider.pk)
    except TentalisError as error:
        findings = [connecting.TestNote(str(error), False)]
    return _show_connect(request, scene, tested={"id": provider.pk, "findings": findings})


@require_http_methods(["GET", "POST"])
@project_view(Right.TASKS_WRITE)
def take_from_sessions(request: HttpRequest, scene: Scene) -> HttpResponse:
    """Tasks out of what people asked in recorded conversations."""
    require(scene, Right.ATTEMPTS_READ)
    before = read_number(request, "before")
    rows = asked.find_asked(scene.project, before=before)
    offered = [one.session.pk for one in rows if not one.obstacle]
    form = SessionTasksForm(posted(request), project=scene.project, offered=offered)
    made, status = fill_in(
        request, form, lambda: flow.submit_asked(project=scene.project, by=scene.user, **form.cleaned_data)
    )
    if status is None:
        words = ngettext("%(n)s task is queued.", "%(n)s tasks are queued.", len(made))
        messages.success(request, words % {"n": len(made)})
        return leave(scene, "task-list")
    context = {
        "form": form,
        "rows": rows,
        "offered": offered,
        "chosen": set(request.POST.getlist("sessions")),
        "older": rows[-1].session.pk if len(rows) == asked.PAGE else None,
    }
    return show(request, scene, "tasks_from_sessions", context, status=status)


@require_http_methods(["GET", "POST"])
@project_view(Right.PROJECTS_READ)
def choose_judges(request: HttpRequest, scene: Scene) -> HttpResponse:
    """Who judges, and how much of the work."""
    if request.method == "POST":
        require(scene, Right.PROJECTS_WRITE)
    found = judges.find_judges(scene.project)
    form = JudgesForm(
        posted(request),
        initial={
            "who": found.who,
            "share": max(round(100 * judges.LEAST_RATE), round(100 * found.rate)),
            "human_share": round(100 * found.human_rate),
            "model": found.model,
        },
    )
    _done, status = fill_in(
        request, form, lambda: judges.choose_judges(project=scene.project, by=scene.user, **form.changes)
    )
    if status is None:
        messages.success(request, _("Saved. It holds for the tasks that are worked from now on."))
        return leave(scene, "who-judges")
    context = {
        "form": form,
        "judges": found,
    }
    return show(request, scene, "who_judges", context, status=status)


def _find_agent(scene: Scene, name: str) -> User | None:
    """The agent of the project that is called so, in full or without the project's name."""
    names = (name, name_within(scene.project, name))
    found = Member.objects.filter(project=scene.project, role=Role.AGENT, user__username__in=names)
    member = found.select_related("user").first()
    return member.user if member is not None else None


def _compare_bases(scene: Scene, provider_id: int) -> list[connecting.TestNote]:
    workers = Worker.objects.filter(project=scene.project, provider=provider_id, is_active=True)
    findings = []
    for worker in workers.select_related("provider", "learns_with__provider").order_by("name")[: connecting.MOST]:
        found = compare_base(worker.line)
        page = () if found.is_good else (worker.name,)
        findings.append(connecting.TestNote(found.words, found.is_good, "" if found.is_good else "worker-change", page))
    return findings or [connecting.TestNote(_("No worker uses it yet: add one, which names the model and its files."))]


def _show_connect(
    request: HttpRequest,
    scene: Scene,
    *,
    form: ConnectTokenForm | None = None,
    made: dict[str, Any] | None = None,
    tested: dict[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    sent = form.data.get("purpose") if form is not None else None
    forms = {name: form if sent == name else ConnectTokenForm(purpose=name) for name in SCOPES}
    view = connecting.find_connected(scene.project, is_admin=scene.user.is_superuser)
    text = {str(made["purpose"]): str(made["text"])} if made is not None else {}
    context = {
        "view": view,
        "answerer_names": [one.worker.name for one in view.answerers],
        "token_agent": text.get("agent", ""),
        "token_tasks": text.get("tasks", ""),
        "forms": forms,
        "made": made,
        "tested": tested,
        "gateway_url": find_gateway_url(request),
        "console_url": f"{request.scheme}://{request.get_host()}",
        "may_make_tokens": scene.may(Right.MEMBERS_WRITE) and scene.may(Right.TOKENS_WRITE),
    }
    return show(request, scene, "connect", context, status=status)
