"""How models did on sets of items, as people asked, and several of them compared together."""

from collections.abc import Callable

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.base.errors import TentalisError
from apps.console.forms_evaluations import EvaluationForm, ExperimentForm, HumanGradeForm
from apps.console.selectors import evaluation_tries, evaluations, items_compared
from apps.console.views.frame import (
    Scene,
    act,
    fill_in,
    found_or_404,
    leave,
    posted,
    project_view,
    read_number,
    require,
    show,
)
from apps.evals import asking
from apps.evals.comparing import compare_evaluations
from apps.evals.experiments import make_experiment
from apps.evals.human_grades import find_agreement, find_contradiction, find_obstacle, grade_try
from apps.evals.models import Evaluation, Experiment, HumanGrade
from apps.feedback.rights import may_read_reference
from apps.pipeline import flow

State = Evaluation.State


@require_GET
@project_view(Right.EVALS_READ)
def list_evaluations(request: HttpRequest, scene: Scene) -> HttpResponse:
    rows, older = evaluations.find_asked(scene.project, before=read_number(request, "before"))
    context = {"rows": rows, "older": older}
    return show(request, scene, "evaluations", context)


@require_http_methods(["GET", "POST"])
@project_view(Right.EVALS_WRITE)
def ask_evaluation(request: HttpRequest, scene: Scene) -> HttpResponse:
    initial = {name: request.GET[name] for name in ("worker", "adapter", "taskset") if name in request.GET}
    form = EvaluationForm(scene.project, posted(request), initial=initial)

    def do() -> Evaluation:
        return flow.ask_evaluation(worker=form.cleaned_data["worker"], by=scene.user, **form.asked)

    asked, status = fill_in(request, form, do)
    if asked is not None:
        return leave(scene, "evaluation", asked.pk)
    return show(request, scene, "evaluation_form", {"form": form}, status=status or 200)


@require_GET
@project_view(Right.EVALS_READ)
def show_evaluation(request: HttpRequest, scene: Scene, evaluation_id: int) -> HttpResponse:
    """What it found; with `beside`, another's number, against that one."""
    evaluation = _find(scene, evaluation_id)
    comparable = evaluations.find_comparable(evaluation)
    tried, following = evaluations.list_tried(evaluation, start=read_number(request, "start") or 0)
    figures = evaluations.find_kept_figures(evaluation)
    context = {
        "evaluation": evaluation,
        "tried": tried,
        "following": following,
        "comparable": [(one, evaluations.name_side(one)) for one in comparable],
        "figures": figures,
        "alignment": evaluations.list_alignment(figures.alignment) if figures and figures.alignment else (),
        "agreement": find_agreement(evaluation),
        "may_change": scene.may(Right.EVALS_WRITE) and bool(evaluation.asked_by),
        "may_pause": evaluation.state in {State.QUEUED, State.RUNNING},
        "may_resume": evaluation.state in {State.PAUSED, State.FAILED},
        "subject": f"evaluation:{evaluation.pk}",
        "is_under_way": evaluation.state in {State.QUEUED, State.RUNNING, State.WAITING},
        "fragments": {"evaluation"},
    }
    if (number := read_number(request, "beside")) is not None:
        beside = next((one for one in comparable if one.pk == number), None)
        if beside is None:
            raise Http404("there is no such evaluation of the same items")
        context["beside"] = beside
        try:
            context["compared"] = compare_evaluations(evaluation, beside)
        except TentalisError as error:
            context["why_not_compared"] = str(error)
    return show(request, scene, "evaluation", context)


@require_GET
@project_view(Right.EVALS_READ)
def compare_items(request: HttpRequest, scene: Scene, evaluation_id: int, beside_id: int) -> HttpResponse:
    """Two of the same items, item by item; `kind` keeps those of `items_compared.SIDES`."""
    mine, theirs = _find(scene, evaluation_id), _find(scene, beside_id)
    if not mine.item_set_hash or mine.item_set_hash != theirs.item_set_hash:
        raise Http404("these are not of the same items")
    kind = request.GET.get("kind", "")
    kind = kind if kind in items_compared.SIDES else ""
    start = read_number(request, "start") or 0
    items, following = items_compared.list_compared(mine, theirs, kind=kind, start=start)
    context = {
        "evaluation": mine,
        "beside": theirs,
        "mine": evaluations.name_side(mine),
        "theirs": evaluations.name_side(theirs),
        "kind": kind,
        "kinds": [(value, label) for value, (label, _wanted) in items_compared.SIDES.items()],
        "items": items,
        "following": following,
    }
    return show(request, scene, "evaluation_items", context)


@require_http_methods(["GET", "POST"])
@project_view(Right.EVALS_READ)
def show_try(request: HttpRequest, scene: Scene, evaluation_id: int, place: int, number: int) -> HttpResponse:
    """One try: its conversation, its tokens, its grade, and what people say of it, which is said here too."""
    evaluation = _find(scene, evaluation_id)
    view = found_or_404(evaluation_tries.view_try(evaluation, place, number), "there is no such try")
    mine = next((one for one in view.human_grades if one.author == scene.user.handle), None)
    initial = {"grade": mine.value, "text": mine.text} if mine else {}
    form = HumanGradeForm(posted(request), initial=initial)
    if request.method == "POST":
        require(scene, Right.REVIEWS_WRITE)

    def do() -> HumanGrade:
        return grade_try(item_try=view.item_try, value=form.value, text=form.cleaned_data["text"], by=scene.user)

    made, status = fill_in(request, form, do)
    if made is not None:
        messages.success(request, _("Your grade is kept beside the grader's."))
        return leave(scene, "evaluation-try", evaluation.pk, place, number)
    context = {
        "evaluation": evaluation,
        "view": view,
        "number": place + 1,
        "form": form,
        "mine": mine,
        "may_grade": scene.may(Right.REVIEWS_WRITE) and not scene.user.is_agent and not find_obstacle(view.item_try),
        "contradicted": scene.may(Right.EVALS_WRITE)
        and find_contradiction(view.item_try, view.human_grades) is not None,
        "may_know": may_read_reference(scene.user, scene.project),
    }
    return show(request, scene, "evaluation_try", context, status=status or 200)


@require_POST
@project_view(Right.EVALS_WRITE)
def pause(request: HttpRequest, scene: Scene, evaluation_id: int) -> HttpResponse:
    return _change(
        request, scene, evaluation_id, _("It is paused: what is under way is kept."), asking.pause_evaluation
    )


@require_POST
@project_view(Right.EVALS_WRITE)
def resume(request: HttpRequest, scene: Scene, evaluation_id: int) -> HttpResponse:
    return _change(request, scene, evaluation_id, _("It goes on."), flow.resume_evaluation)


@require_POST
@project_view(Right.EVALS_WRITE)
def cancel(request: HttpRequest, scene: Scene, evaluation_id: int) -> HttpResponse:
    return _change(request, scene, evaluation_id, _("It is cancelled."), asking.cancel_evaluation)


@require_GET
@project_view(Right.EVALS_READ)
def list_experiments(request: HttpRequest, scene: Scene) -> HttpResponse:
    rows, older = evaluations.find_experiments(scene.project, before=read_number(request, "before"))
    context = {"rows": rows, "older": older}
    return show(request, scene, "experiments", context)


@require_http_methods(["GET", "POST"])
@project_view(Right.EVALS_WRITE)
def ask_experiment(request: HttpRequest, scene: Scene) -> HttpResponse:
    form = ExperimentForm(scene.project, posted(request))

    def do() -> Experiment:
        name = form.cleaned_data["experiment"]
        return make_experiment(project=scene.project, experiment=name, scenarios=form.scenarios, by=scene.user)

    asked, status = fill_in(request, form, do)
    if asked is not None:
        return leave(scene, "experiment", asked.pk)
    return show(request, scene, "experiment_form", {"form": form}, status=status or 200)


@require_GET
@project_view(Right.EVALS_READ)
def show_experiment(request: HttpRequest, scene: Scene, experiment_id: int) -> HttpResponse:
    experiment = get_object_or_404(Experiment, project=scene.project, pk=experiment_id)
    answered = evaluations.list_answered(experiment)
    return show(request, scene, "experiment", {"experiment": experiment, "answered": answered})


def _change(
    request: HttpRequest, scene: Scene, evaluation_id: int, words: str, do: Callable[..., Evaluation]
) -> HttpResponse:
    evaluation = _find(scene, evaluation_id)
    user: User = scene.user
    act(request, words, lambda: do(evaluation=evaluation, by=user))
    return leave(scene, "evaluation", evaluation.pk)


def _find(scene: Scene, evaluation_id: int) -> Evaluation:
    rows = Evaluation.objects.select_related("project", "worker", "adapter", "taskset")
    return get_object_or_404(rows, project=scene.project, pk=evaluation_id)
