"""Runs and adapters: what trained, what came of it, what serves."""

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import messages
from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.rights import Right
from apps.adapters import services as adapters
from apps.adapters.models import Adapter
from apps.adapters.selectors import find_deployment
from apps.adapters.shadows import find_running
from apps.console.operation_forms import RetryForm, RunForm, TrainForm
from apps.console.selectors import training
from apps.console.selectors.line import find_line
from apps.console.selectors.lineage import draw_lineage
from apps.console.selectors.workers import choose_worker
from apps.console.views.frame import (
    Confirmation,
    Scene,
    act,
    ask,
    fill_in,
    find_page,
    found_or_404,
    leave,
    posted,
    project_view,
    read_number,
    show,
)
from apps.console.views.trace import adapter_or_404
from apps.console.words_learning import explain_alarms, explain_gates
from apps.evals.regressions import find_inheritance
from apps.pipeline import flow, trainings
from apps.reports.learning_curve import find_accuracy
from apps.training import naming, run_control
from apps.training.cost_benefit import find_return
from apps.training.models import TrainingRun
from apps.training.naming import MOST_TAG
from apps.training.services import read_recipe
from apps.workers.models import Worker

MOST_COMPARED = 5
STEERING: Mapping[str, tuple[Callable[..., TrainingRun], Any]] = {
    "pause": (trainings.pause_run, gettext_lazy("Run %(id)s pauses: at once while it waits, else at its next update.")),
    "resume": (trainings.resume_run, gettext_lazy("Run %(id)s goes on when its turn comes.")),
}
"""What a button does to a run, and what is said when it was done."""


@require_GET
@project_view(Right.RUNS_READ)
def list_runs(request: HttpRequest, scene: Scene) -> HttpResponse:
    state, worker = read_choice(request, "state", TrainingRun.State.values), request.GET.get("worker", "")
    before = read_number(request, "before")
    tag = request.GET.get("tag", "").strip()[:MOST_TAG]
    points, older = training.find_runs(scene.project, worker=worker, state=state, tag=tag, before=before)
    chosen, _workers = choose_worker(scene.project, worker)
    shows_line = chosen is not None and before is None and not state and not tag
    context = {
        "line": find_line(chosen) if chosen is not None and shows_line else None,
        "line_worker": chosen,
        "tag": tag,
        "points": points,
        "older": older,
        "state": state,
        "states": TrainingRun.State.choices,
        "worker": worker,
        "workers": list(Worker.objects.filter(project=scene.project)),
        "batches": training.find_open_batches(scene.project),
        "fragments": {"runs"},
    }
    return show(request, scene, "runs", context)


@require_GET
@project_view(Right.RUNS_READ)
def show_run(request: HttpRequest, scene: Scene, run_id: int) -> HttpResponse:
    """A run, and beside it those that `?with=` names."""
    others = read_numbers(request, "with", most=MOST_COMPARED)
    view = found_or_404(
        training.show_run(scene.project, run_id, others=[other for other in others if other != run_id]),
        f"no run {run_id}, or none of those to compare it with",
    )
    context = {
        "view": view,
        "run": view.run,
        "returns": find_return(view.run),
        "gates": explain_gates(view.run.gates),
        "alarms": explain_alarms(view.run.alarms),
        "chosen": set(others),
        "fragments": {"run"},
    }
    return show(request, scene, "run", context)


@require_http_methods(["GET", "POST"])
@project_view(Right.RUNS_WRITE)
def cancel_run(request: HttpRequest, scene: Scene, run_id: int) -> HttpResponse:
    """Say what cancelling a run will do; then do it."""
    run = run_or_404(scene, run_id)
    if request.method == "POST":
        done = _("Run %(id)s stops: at once while it waits, else at its next update.") % {"id": run_id}
        act(request, done, lambda: trainings.cancel_run(run=run, by=scene.user))
        return leave(scene, "run", run_id)
    lines = [_("It stops at once while it waits, else at its next update. No adapter comes of it.")]
    if run.batch is not None:
        lines += [
            _("Its batch of judged attempts is kept: try the run again to train on it, with this recipe or another."),
            _("The worker's next run does not wait for it."),
        ]
    lines += [_("What was measured so far stays on its page."), _("The audit names you.")]
    has_ended = run.state not in {run.State.QUEUED, run.State.RUNNING, run.State.PAUSED}
    question = Confirmation(
        title=_("Cancel run %(id)s?") % {"id": run_id},
        lines=lines,
        button=_("Cancel run"),
        back=find_page(scene, "run", run_id),
        back_words=_("Run %(id)s") % {"id": run_id},
        why_not=_("The run has ended already: %(state)s.") % {"state": run.get_state_display()} if has_ended else "",
    )
    return ask(request, scene, question)


@require_http_methods(["GET", "POST"])
@project_view(Right.RUNS_WRITE)
def retry_run(request: HttpRequest, scene: Scene, run_id: int) -> HttpResponse:
    """Say what trying a run again will do, and with which recipe; then do it."""
    run = run_or_404(scene, run_id)
    form = RetryForm(posted(request)) if run.purpose == TrainingRun.Purpose.POLICY else Form(posted(request))
    _done, status = fill_in(request, form, lambda: trainings.retry_run(run=run, by=scene.user, **form.cleaned_data))
    if status is None:
        messages.success(request, _("Run %(id)s is tried again when its turn comes.") % {"id": run_id})
        return leave(scene, "run", run_id)
    lines = [
        _("It trains on the batch it has: the same judged attempts, each still in this one batch."),
        _("It continues what serves when its turn comes, under a new number of its tries."),
        _("What was measured in earlier tries is replaced on its page."),
    ]
    question = Confirmation(
        title=_("Try run %(id)s again?") % {"id": run_id},
        lines=[*lines, *_say_other_recipe(run)],
        button=_("Try it again"),
        back=find_page(scene, "run", run_id),
        back_words=_("Run %(id)s") % {"id": run_id},
        why_not=run_control.why_not(run, "tried again"),
        is_dangerous=False,
    )
    return ask(request, scene, question, form=form, status=status)


def _say_other_recipe(run: TrainingRun) -> list[str]:
    """Where the settings say something else by now than when the run was queued."""
    if run.purpose != TrainingRun.Purpose.POLICY:
        return []
    now = read_recipe(run.worker).to_json()
    changed = [f"{name} {run.recipe.get(name)} → {now[name]}" for name in now if run.recipe.get(name) != now[name]]
    if not changed:
        return [_("The settings say the same recipe as the run has.")]
    return [_("The settings say another recipe by now: %(changes)s.") % {"changes": ", ".join(changed)}]


@require_POST
@project_view(Right.RUNS_WRITE)
def steer_run(request: HttpRequest, scene: Scene, run_id: int, action: str) -> HttpResponse:
    """Pause or resume a run."""
    do, done = STEERING[action]
    run = run_or_404(scene, run_id)
    act(request, done % {"id": run_id}, lambda: do(run=run, by=scene.user))
    return leave(scene, "run", run_id)


def run_or_404(scene: Scene, run_id: int) -> TrainingRun:
    return get_object_or_404(TrainingRun.objects.select_related("project", "worker"), project=scene.project, pk=run_id)


@require_http_methods(["GET", "POST"])
@project_view(Right.RUNS_WRITE)
def train_now(request: HttpRequest, scene: Scene, name: str) -> HttpResponse:
    """Close the worker's batch, or that of one person, with what is in it; with another recipe where one is given."""
    worker, end_user = worker_or_404(scene, name), request.GET.get("end_user", "")
    form = TrainForm(posted(request), initial={"end_user": end_user})
    _done, status = fill_in(request, form, lambda: flow.close_batch(worker=worker, by=scene.user, **form.cleaned_data))
    if status is None:
        messages.success(request, _("Training of %(name)s is queued.") % {"name": name})
        return leave(scene, "run-list")
    batch = training.find_open_batch(worker, form["end_user"].value() or "")
    question = Confirmation(
        title=_("Train %(worker)s now?") % {"worker": name},
        lines=[
            _("Batch %(number)s is closed with the %(tasks)s of %(target)s tasks that are in it, and trained.")
            % {"number": batch.number, "tasks": batch.task_count, "target": batch.target_tasks}
            if batch is not None
            else "",
            _("Fields of the recipe that you change hold for this run only; the settings stay as they are."),
            _("The adapter it makes passes the same checks as any other before it serves."),
        ],
        button=_("Train now"),
        back=find_page(scene, "run-list"),
        back_words=_("Training runs"),
        why_not="" if batch is not None and batch.task_count else _("Its next batch holds no judged task yet."),
        is_dangerous=False,
    )
    return ask(request, scene, question, form=form, status=status)


@require_http_methods(["GET", "POST"])
@project_view(Right.RUNS_WRITE)
def describe_run(request: HttpRequest, scene: Scene, run_id: int) -> HttpResponse:
    """Give a run a name, tags and notes."""
    run = run_or_404(scene, run_id)
    form = RunForm(posted(request), initial={"name": run.name, "tags": ", ".join(run.tags), "comment": run.comment})
    _done, status = fill_in(request, form, lambda: naming.describe_run(run=run, by=scene.user, **form.cleaned_data))
    if status is None:
        return leave(scene, "run", run_id)
    question = Confirmation(
        title=_("Name and notes of run %(id)s") % {"id": run_id},
        lines=[_("The name stands beside its number in lists and charts."), _("The audit names who changed them.")],
        button=_("Save"),
        back=find_page(scene, "run", run_id),
        back_words=_("Run %(id)s") % {"id": run_id},
        is_dangerous=False,
    )
    return ask(request, scene, question, form=form, status=status)


@require_GET
@project_view(Right.ADAPTERS_READ)
def list_adapters(request: HttpRequest, scene: Scene) -> HttpResponse:
    state, name = read_choice(request, "state", Adapter.State.values), request.GET.get("worker", "")
    before = read_number(request, "before")
    adapters, older = training.find_adapters(scene.project, worker=name, state=state, before=before)
    worker, workers = choose_worker(scene.project, name)
    context = {
        "adapters": adapters,
        "older": older,
        "state": state,
        "states": Adapter.State.choices,
        "worker": name,
        "workers": workers,
        "lineage": draw_lineage(worker) if worker and before is None else None,
        "curve": find_accuracy(worker) if worker and before is None else None,
        "deployments": training.find_deployments(scene.project),
        "fragments": {"adapters"},
    }
    return show(request, scene, "adapters", context)


@require_GET
@project_view(Right.ADAPTERS_READ)
def show_adapter(request: HttpRequest, scene: Scene, adapter_id: int) -> HttpResponse:
    view = found_or_404(training.show_adapter(scene.project, adapter_id), f"no adapter {adapter_id}")
    context = {
        "view": view,
        "adapter": view.adapter,
        "alarms": explain_alarms(view.run.alarms) if view.run else (),
        "inherits": find_inheritance(view.adapter) if scene.may(Right.EVALS_READ) else None,
        "fragments": {"adapter"},
    }
    return show(request, scene, "adapter", context)


@require_POST
@project_view(Right.ADAPTERS_WRITE)
def ask_people(request: HttpRequest, scene: Scene, adapter_id: int) -> HttpResponse:
    """Have people compare its answers with those of what serves."""
    adapter = adapter_or_404(scene, adapter_id)
    done = _("Its answers and those of what serves join the review queue, without names.")
    act(request, done, lambda: flow.ask_people(adapter=adapter, by=scene.user))
    return leave(scene, "adapter", adapter_id)


@require_http_methods(["GET", "POST"])
@project_view(Right.ADAPTERS_WRITE)
def promote_adapter(request: HttpRequest, scene: Scene, adapter_id: int) -> HttpResponse:
    """Say what putting an adapter into service will do; then do it."""
    if request.method == "POST":
        adapter = adapter_or_404(scene, adapter_id)
        done = _("%(adapter)s serves %(worker)s.") % {"adapter": adapter.name, "worker": adapter.worker.name}
        act(request, done, lambda: adapters.promote(adapter=adapter, by=scene.user))
        return leave(scene, "adapter", adapter_id)
    view = found_or_404(training.show_adapter(scene.project, adapter_id), f"no adapter {adapter_id}")
    worker, end_user = view.adapter.worker, view.adapter.end_user
    context = {
        "view": view,
        "adapter": view.adapter,
        "deployment": find_deployment(worker, end_user=end_user),
        "shadow": None if end_user else find_running(worker.pk),
    }
    return show(request, scene, "adapter_promote", context)


@require_http_methods(["GET", "POST"])
@project_view(Right.ADAPTERS_WRITE)
def roll_back(request: HttpRequest, scene: Scene, name: str) -> HttpResponse:
    """Say what a roll back of a worker, or of one person who asks it, will do; then do it."""
    worker, end_user = worker_or_404(scene, name), request.GET.get("end_user", "")
    if request.method == "POST":
        done = _("%(name)s is rolled back.") % {"name": name}
        act(request, done, lambda: adapters.roll_back(worker=worker, by=scene.user, end_user=end_user))
        return leave(scene, "adapter-list")
    context = {
        "worker": worker,
        "end_user": end_user,
        "deployment": find_deployment(worker, end_user=end_user),
        "shadow": None if end_user else find_running(worker.pk),
    }
    return show(request, scene, "adapter_roll_back", context)


def worker_or_404(scene: Scene, name: str) -> Worker:
    found = Worker.objects.filter(project=scene.project, name=name).select_related("project", "provider")
    return found_or_404(found.first(), f"no worker {name}")


def read_choice(request: HttpRequest, name: str, choices: list[str]) -> str:
    """A filter out of the query string; "" where there is none.

    Raises:
        Http404: it is none of the choices.
    """
    value = request.GET.get(name, "")
    if value and value not in choices:
        raise Http404(f"{name} must be one of {', '.join(choices)}")
    return value


def read_numbers(request: HttpRequest, name: str, *, most: int) -> list[int]:
    """Row ids out of the query string, `12,13` or said several times.

    Raises:
        Http404: something is no id, or there are more than `most`.
    """
    texts = [text for value in request.GET.getlist(name) for text in value.split(",") if text]
    if len(texts) > most or not all(text.isascii() and text.isdigit() and len(text) < 19 for text in texts):
        raise Http404(f"{name} must be at most {most} row ids")
    return list(dict.fromkeys(int(text) for text in texts))
