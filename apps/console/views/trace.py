"""What feedback changed, and from an adapter back to who taught it."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.rights import Right
from apps.adapters.models import Adapter
from apps.base.errors import TentalisError
from apps.console.selectors import comparing, trace
from apps.console.selectors.review import is_blind
from apps.console.selectors.workers import find_worker_names
from apps.console.views.frame import Scene, found_or_404, leave, project_view, read_number, show, tidy
from apps.console.views.judging import find_task_or_404
from apps.feedback.models import Feedback, Review
from apps.finding.feedback import FeedbackFilters
from apps.finding.lists import list_rows
from apps.pipeline import flow
from apps.reports import lineage


@require_GET
@project_view(Right.FEEDBACK_READ)
def show_feedback(request: HttpRequest, scene: Scene, feedback_id: int) -> HttpResponse:
    found = found_or_404(
        trace.trace_feedback(scene.project, feedback_id, user=scene.user), f"no feedback {feedback_id}"
    )
    if held := _find_blind_review(scene, found.task.pk):
        return _send_to_review(request, scene, held)
    return show(request, scene, "trace_feedback", {"trace": found, "fragments": {"trace_feedback"}})


@require_GET
@project_view(Right.FEEDBACK_READ)
def show_my_feedback(request: HttpRequest, scene: Scene) -> HttpResponse:
    """What the feedback of whoever looks at it did."""
    if (shorter := tidy(request)) is not None:
        return shorter
    own = Feedback.objects.filter(project=scene.project, author=scene.user.handle).select_related("task__worker")
    listing = list_rows(FeedbackFilters, own, request.GET, scene.user, limit=lineage.PAGE)
    context = {
        "listing": listing,
        "contribution": lineage.find_contribution(listing.rows),
        "known": {"worker": find_worker_names(scene.project)},
        "fragments": {"trace_mine"},
    }
    return show(request, scene, "trace_mine", context, status=listing.status)


@require_GET
@project_view(Right.FEEDBACK_READ)
def show_people(request: HttpRequest, scene: Scene, adapter_id: int) -> HttpResponse:
    """Everybody whose feedback is in an adapter, and each piece of it."""
    with_ancestors, author = request.GET.get("ancestors", "") == "1", request.GET.get("author", "")
    found = lineage.find_origins(
        adapter_or_404(scene, adapter_id),
        user=scene.user,
        with_ancestors=with_ancestors,
        author=author,
        before=read_number(request, "before"),
    )
    context = {"origins": found, "with_ancestors": with_ancestors, "author": author}
    return show(request, scene, "trace_people", context)


@require_GET
@project_view(Right.ADAPTERS_READ)
def show_moved(request: HttpRequest, scene: Scene, adapter_id: int) -> HttpResponse:
    """The held-out tasks that an adapter does otherwise than the one it continues."""
    adapter = adapter_or_404(scene, adapter_id)
    return show(request, scene, "trace_moved", {"adapter": adapter, "movement": trace.find_movement(adapter)})


@require_GET
@project_view(Right.TASKS_READ)
def show_versions(request: HttpRequest, scene: Scene, task_id: int) -> HttpResponse:
    """The same task on every version of the worker that tried it."""
    task = find_task_or_404(scene, task_id)
    if held := _find_blind_review(scene, task_id):
        return _send_to_review(request, scene, held)
    family = comparing.find_family(task)
    context = {"task": task, "family": family, "versions": comparing.find_versions(family)}
    return show(request, scene, "trace_versions", context)


@require_POST
@project_view(Right.TASKS_WRITE)
def try_again(request: HttpRequest, scene: Scene, task_id: int) -> HttpResponse:
    """Submit a task's prompt once more; what serves now does it."""
    task = find_task_or_404(scene, task_id)
    try:
        again = flow.submit(
            project=scene.project,
            worker=task.worker,
            prompt=task.prompt,
            environment=task.environment,
            by=scene.user,
            group_size=task.group_size,
            reference=task.reference,
            parent=task,
        )
    except TentalisError as error:
        messages.error(request, str(error))
        return leave(scene, "task-versions", task_id)
    messages.success(request, _("Submitted again as task %(id)s.") % {"id": again.pk})
    return leave(scene, "task", again.pk)


@require_GET
@project_view(Right.ATTEMPTS_READ)
def compare_attempts(request: HttpRequest, scene: Scene) -> HttpResponse:
    """Two attempts side by side: `?left=` and `?right=` are their row ids."""
    left, right = read_number(request, "left"), read_number(request, "right")
    view = comparing.compare_attempts(scene.project, left, right) if left and right else None
    if view is None:
        raise Http404("left and right must be two attempts of this project")
    if held := _find_blind_review(scene, view.left.task_id, view.right.task_id):
        return _send_to_review(request, scene, held)
    return show(request, scene, "trace_compare", {"view": view})


def adapter_or_404(scene: Scene, adapter_id: int) -> Adapter:
    return get_object_or_404(Adapter.objects.select_related("worker", "parent"), project=scene.project, pk=adapter_id)


def _find_blind_review(scene: Scene, *task_ids: int) -> Review | None:
    """The review of these tasks that this person is giving without sight of adapters and other people's words."""
    held = Review.objects.filter(task__in=task_ids, state=Review.State.OPEN, claimed_by=scene.user)
    return next((one for one in held.select_related("task__project") if is_blind(one.task, one)), None)


def _send_to_review(request: HttpRequest, scene: Scene, review: Review) -> HttpResponse:
    messages.info(request, _("You have this task's review open: other feedback is shown after you have judged."))
    return leave(scene, "review", review.pk)
