"""Tasks: the list, a new one, the page of one, and words about it."""

from collections.abc import Mapping
from random import SystemRandom
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods

from apps.accounts.rights import Right
from apps.base.errors import TentalisError
from apps.console.forms import TaskFileForm, TaskForm, show_error
from apps.console.selectors import work
from apps.console.selectors.presence import find_present
from apps.console.selectors.proposals import find_of_task
from apps.console.selectors.review import hide_from_reviewer, is_reviewing_blind
from apps.console.selectors.review_queue import may_manage
from apps.console.selectors.screenshots import find_file, find_screenshots
from apps.console.selectors.ticked import DOINGS
from apps.console.views.frame import (
    Confirmation,
    Scene,
    act,
    ask,
    find_page,
    found_or_404,
    know_names,
    leave,
    posted,
    project_view,
    show,
    tidy,
)
from apps.console.views.judging import find_task_or_404
from apps.evals.holding import is_held_out
from apps.feedback.models import RowImport
from apps.finding.lists import list_rows
from apps.finding.tasks import TaskFilters
from apps.inference.costs import cost_of_task
from apps.pipeline import flow
from apps.pipeline.importing import look_into
from apps.tasks.models import Task
from apps.worlds.registry import WORLDS
from tentalis.limits import LIMITS

PREVIEWED, SHOWN_IMPORTS = 5, 20


@require_GET
@project_view(Right.TASKS_READ)
def list_tasks(request: HttpRequest, scene: Scene) -> HttpResponse:
    if (shorter := tidy(request)) is not None:
        return shorter
    rows = work.tasks_of(scene.project)
    listing = list_rows(TaskFilters, rows, request.GET, scene.user, limit=work.PAGE)
    context = {
        "tasks": listing.rows,
        "listing": listing,
        "state": request.GET.get("state", ""),
        "states": Task.State.choices,
        "counts": work.count_open_tasks(scene.project).by_state,
        "known": know_names(scene),
        "may_act": scene.may(Right.PIPELINE_WRITE) and bool(listing.rows),
        "doings": DOINGS["tasks"],
        "fragments": {"task_list"},
    }
    return show(request, scene, "tasks", context, status=listing.status)


@require_http_methods(["GET", "POST"])
@project_view(Right.TASKS_WRITE)
def submit_task(request: HttpRequest, scene: Scene) -> HttpResponse:
    form = TaskForm(posted(request), project=scene.project)
    status, tried = 200, None
    if "draw" in request.POST:
        form = TaskForm(project=scene.project, initial=_draw(request.POST))
    elif request.method == "POST" and ("try" in request.POST or "fragment" in request.GET):
        tried = form.try_example()
        form.errors.clear()
    elif request.method == "POST":
        status = 400
        if form.is_valid():
            try:
                task = _submit(scene, form.cleaned_data)
            except TentalisError as error:
                show_error(form, error)
                status = error.status
            else:
                messages.success(request, f"Task {task.pk} is queued.")
                if is_held_out(task):
                    messages.info(request, _("It is held out: workers are measured on it and never learn from it."))
                return leave(scene, "task", task.pk)
    return show(
        request, scene, "task_new", {"form": form, "tried": tried, "fragments": {"reference_tried"}}, status=status
    )


@require_http_methods(["GET", "POST"])
@project_view(Right.TASKS_WRITE)
def import_tasks(request: HttpRequest, scene: Scene) -> HttpResponse:
    """What a file holds, tasks or finished work: looked at first where that is asked for, taken whole or not at all."""
    form = TaskFileForm(posted(request), request.FILES or None, project=scene.project)
    imports = RowImport.objects.filter(project=scene.project).select_related("by").defer("text")[:SHOWN_IMPORTS]
    context: dict[str, Any] = {"form": form, "limits": LIMITS, "imports": imports}
    status = 400 if request.method == "POST" else 200
    if request.method == "POST" and form.is_valid():
        try:
            if "check" in request.POST:
                said = form.cleaned_data["said"]
                rows = look_into(said["text"], form=said["form"], rows=said["rows"], checks=said["checks"])
                context |= {"count": len(rows), "rows": rows[:PREVIEWED], "is_kept": form.keep_file()}
                status = 200
            elif isinstance(made := _submit_file(scene, form.cleaned_data), RowImport):
                messages.success(
                    request, _("%(n)s rows are being made into tasks: %(what)s.") % {"n": made.total, "what": made.kind}
                )
                return leave(scene, "task-import")
            else:
                count = len(made)
                messages.success(
                    request, ngettext("%(n)s task is queued.", "%(n)s tasks are queued.", count) % {"n": count}
                )
                return leave(scene, "task-list")
        except TentalisError as error:
            show_error(form, error)
            status = error.status
    return show(request, scene, "task_import", context, status=status)


@require_GET
@project_view(Right.TASKS_READ)
def show_task(request: HttpRequest, scene: Scene, task_id: int) -> HttpResponse:
    task = find_task_or_404(scene, task_id)
    view = hide_from_reviewer(work.show_task(task, user=scene.user), scene.user)
    is_blind = is_reviewing_blind(view, scene.user)
    is_manager = may_manage(scene.project, scene.user)
    context = {
        "view": view,
        "task": task,
        "is_blind": is_blind,
        "may_know": is_manager and not is_blind,
        "cost": cost_of_task(task.pk).total,
        "is_held_out": is_held_out(task),
        "may_keep": scene.may(Right.EVALS_WRITE) and not is_blind,
        "proposals": find_of_task(task) if scene.may(Right.REVIEWS_READ) else [],
        "screenshots": find_screenshots(task, [one.attempt for one in view.attempts]),
        "present": find_present(view.reviews, user=scene.user, is_manager=is_manager, is_blind=is_blind),
        "fragments": {"task"},
    }
    return show(request, scene, "task", context)


@require_GET
@project_view(Right.TASKS_READ)
def show_screenshot(request: HttpRequest, scene: Scene, task_id: int, index: int, sha256: str) -> HttpResponse:
    """What a call of an attempt was done on. It never changes: a browser may keep it."""
    task = find_task_or_404(scene, task_id)
    attempt = found_or_404(task.attempts.filter(index=index).first(), f"no attempt {index + 1}")
    data = found_or_404(find_file(attempt, sha256), "no such screenshot")
    return HttpResponse(data, content_type="image/png", headers={"Cache-Control": "private, max-age=86400, immutable"})


@require_http_methods(["GET", "POST"])
@project_view(Right.TASKS_WRITE)
def cancel_task(request: HttpRequest, scene: Scene, task_id: int) -> HttpResponse:
    """Say what giving a task up will do; then do it."""
    task = find_task_or_404(scene, task_id)
    if request.method == "GET":
        return ask(request, scene, _ask_to_cancel(scene, task))
    act(request, f"Task {task_id} is cancelled.", lambda: flow.cancel(task=task, by=scene.user))
    return leave(scene, "task", task_id)


def _ask_to_cancel(scene: Scene, task: Task) -> Confirmation:
    has_ended = task.state in Task.FINAL
    return Confirmation(
        title=_("Cancel task %(id)s?") % {"id": task.pk},
        lines=(
            _("Work on it stops; what its worker is asking of a model just now is broken off."),
            _("Nobody is asked to review it any more."),
            _("What was done of it stays readable, and teaches nothing."),
            _("This cannot be taken back: submit it again to have it done."),
        ),
        button=_("Cancel task"),
        back=find_page(scene, "task", task.pk),
        back_words=_("Task %(task)s") % {"task": task.pk},
        why_not=_("The task has ended already: %(state)s.") % {"state": task.get_state_display()} if has_ended else "",
    )


def _draw(typed: QueryDict) -> dict[str, Any]:
    """What was typed, with a task that the world of the pressed button made up; as it was where that makes none."""
    name = str(typed["draw"])
    world = found_or_404(WORLDS.get(name), f"no environment {name}")
    prompt = world.draw_prompt(SystemRandom())
    return typed.dict() | ({} if prompt is None else {"environment": world.name, "prompt": prompt, "reference": ""})


def _submit(scene: Scene, data: Mapping[str, Any]) -> Task:
    return flow.submit(
        project=scene.project,
        worker=data["worker"],
        prompt=data["prompt"],
        environment=data["environment"],
        by=scene.user,
        group_size=data["group_size"],
        reference=data["reference"],
        checks=data["checks"],
    )


def _submit_file(scene: Scene, data: Mapping[str, Any]) -> list[Task] | RowImport:
    return flow.import_file(
        project=scene.project,
        environment=data["environment"],
        by=scene.user,
        worker=data["worker"],
        group_size=data["group_size"],
        **data["said"],
    )
