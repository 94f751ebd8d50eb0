"""Corrections that people keep as regression cases, and the button that asks an adapter those that it inherits."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.rights import Right
from apps.base.errors import TentalisError
from apps.console.forms_tasksets import RightAnswerForm
from apps.console.views.frame import Scene, fill_in, leave, posted, project_view, show
from apps.console.views.trace import adapter_or_404
from apps.evals.human_grades import find_contradiction
from apps.evals.models import ItemTry, RegressionCase
from apps.feedback.models import Feedback
from apps.pipeline import flow
from apps.rollouts.regressions import keep_feedback, keep_try
from tentalis.core.scoring.calibration import approves


@require_http_methods(["GET", "POST"])
@project_view(Right.EVALS_WRITE)
def keep_correction(request: HttpRequest, scene: Scene, feedback_id: int) -> HttpResponse:
    """A person's correction of a task's answer."""
    rows = Feedback.objects.readable_by(scene.user).select_related("task__project", "task__worker")
    rows = rows.select_related("preferred_attempt__adapter", "preferred_attempt__worker")
    feedback = get_object_or_404(rows, project=scene.project, pk=feedback_id)
    initial = {"reference": feedback.edited_answer}
    says_itself = feedback.task.reference is not None or feedback.task.checks is not None
    return _keep(
        request,
        scene,
        initial,
        lambda right: keep_feedback(feedback=feedback, by=scene.user, reference=right),
        says_itself,
    )


@require_http_methods(["GET", "POST"])
@project_view(Right.EVALS_WRITE)
def keep_graded(request: HttpRequest, scene: Scene, evaluation_id: int, place: int, number: int) -> HttpResponse:
    """An item of which a person's grade contradicts the grader's."""
    rows = ItemTry.objects.select_related(
        *("record", "evaluation__project", "evaluation__worker", "evaluation__adapter", "evaluation__taskset")
    )
    row = get_object_or_404(
        rows, evaluation__project=scene.project, evaluation=evaluation_id, place=place, number=number
    )
    grade, record = find_contradiction(row), getattr(row, "record", None)
    is_right = grade is not None and approves(grade.value)
    initial = {"reference": record.answer if record else row.answer, "reference_match": "exact"} if is_right else {}
    return _keep(request, scene, initial, lambda right: keep_try(item_try=row, by=scene.user, reference=right))


@require_POST
@project_view(Right.EVALS_WRITE)
def measure(request: HttpRequest, scene: Scene, adapter_id: int) -> HttpResponse:
    """Ask an adapter the corrections that it inherits."""
    adapter = adapter_or_404(scene, adapter_id)
    try:
        first, *others = flow.ask_regressions(adapter=adapter, by=scene.user)
    except TentalisError as error:
        messages.error(request, str(error))
        return leave(scene, "adapter", adapter_id)
    return leave(scene, "evaluation-list") if others else leave(scene, "evaluation", first.pk)


def _keep(
    request: HttpRequest,
    scene: Scene,
    initial: dict[str, Any],
    keep: Callable[[Any], RegressionCase],
    says_itself: bool = False,
) -> HttpResponse:
    form = RightAnswerForm(posted(request), initial=initial)
    if says_itself:
        form.fields.clear()
    made, status = fill_in(request, form, lambda: keep(form.cleaned_data.get("reference")))
    if made is not None:
        messages.success(request, _("It is a regression case: later adapters are measured on it, and none learns it."))
        return leave(scene, "taskset", made.item.taskset_id)
    context = {
        "form": form,
        "title": _("Keep as a regression case"),
        "button": _("Keep it"),
        "about": _("What is right says the task itself.") if says_itself else _("Say what a right answer holds."),
    }
    return show(request, scene, "taskset_form", context, status=status or 200)
