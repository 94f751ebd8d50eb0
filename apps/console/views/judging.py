"""Judging a task: the form of a review, or of a task nobody asked about, and what it says before it is sent."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.rights import Right
from apps.base.errors import BadInputError, TentalisError
from apps.console.forms import show_error
from apps.console.review_forms import FeedbackForm, read_draft
from apps.console.review_preview import preview_judgement
from apps.console.selectors import review as selectors
from apps.console.selectors import work
from apps.console.selectors.presence import Present, find_present
from apps.console.selectors.proposals import find_of_task
from apps.console.selectors.review import Shown, find_undoable, show_attempts
from apps.console.selectors.review_queue import may_manage
from apps.console.selectors.screenshots import find_screenshots
from apps.console.selectors.sessions import read_message
from apps.console.views.frame import Scene, found_or_404, leave, project_view, show
from apps.feedback import claims, submit
from apps.feedback.claims import claim_review
from apps.feedback.drafts import find_draft, save_draft
from apps.feedback.models import Review
from apps.feedback.rules import validate_review_policy
from apps.feedback.side_by_side import find_conversation
from apps.finding.reviews import ReviewFilters
from apps.pipeline import flow
from apps.rollouts.services import find_obstacles
from apps.tasks.models import Task
from apps.workers.models import Worker

UNDO = "undo_feedback"
NOT_DRAFTED = ("csrfmiddlewaretoken", "draft_version", "preview")


@require_http_methods(["GET", "POST"])
@project_view(Right.FEEDBACK_WRITE)
def give_task_feedback(request: HttpRequest, scene: Scene, task_id: int) -> HttpResponse:
    """Words on a task that nobody asked for."""
    return answer_feedback(request, scene, find_task_or_404(scene, task_id), review=None)


def answer_feedback(request: HttpRequest, scene: Scene, task: Task, *, review: Review | None) -> HttpResponse:
    """The feedback form of a review, or of a task nobody asked about. What was typed survives every refusal."""
    shown = show_attempts(task, review=review, user=scene.user)
    is_blind = selectors.is_blind(task, review)
    scores = {} if is_blind else selectors.find_scores(shown)
    status, preview = 200, None
    if request.method == "POST" and "preview" in request.POST:
        form = FeedbackForm(request.POST, shown=shown, scores=scores)
        preview = preview_judgement(task, form, by=scene.user, may_ask=True)
        form.errors.clear()
    elif request.method == "POST":
        form = FeedbackForm(request.POST, shown=shown, scores=scores)
        status = 400
        if form.is_valid():
            try:
                return _send(request, scene, task, review, form)
            except TentalisError as error:
                show_error(form, error)
                status = error.status
    else:
        form = FeedbackForm(initial=_find_typed(review, scene), shown=shown, scores=scores)
    context = {
        "form": form,
        "task": task,
        "review": review,
        "is_blind": is_blind,
        "screenshots": find_screenshots(task, [one.attempt for one in shown]),
        "obstacles": find_obstacles(task),
        "standing": selectors.find_standing(scene.project, scene.user),
        "is_outside": task.worker.kind == Worker.Kind.OUTSIDE,
        "preview": preview,
        "proposals": find_of_task(task),
        "conversation": [read_message(one) for one in find_conversation(task)],
        "present": _find_present(scene, task, is_blind=is_blind),
        "undoable": find_undo(request, scene),
        "query": find_asked(request),
    }
    return show(request, scene, "review", context, status=status)


def _find_present(scene: Scene, task: Task, *, is_blind: bool) -> list[Present]:
    held = Review.objects.filter(task=task, state=Review.State.OPEN, claimed_by__isnull=False)
    is_manager = may_manage(scene.project, scene.user)
    return find_present(held.select_related("claimed_by"), user=scene.user, is_manager=is_manager, is_blind=is_blind)


def _send(request: HttpRequest, scene: Scene, task: Task, review: Review | None, form: FeedbackForm) -> HttpResponse:
    """Give the judgement and open the next review at once."""
    if review is None:
        submit.give_task_feedback(task=task, by=scene.user, **form.said)
        _thank(request, find_obstacles(task))
        return leave(scene, "task", task.pk)
    undo_s = validate_review_policy(scene.project.review_policy).undo_s
    feedback = flow.give_feedback(
        review=review, by=scene.user, undo_s=undo_s, typed=_read_typed(request.POST), **form.said
    )
    request.session[UNDO] = feedback.pk
    return open_next(request, scene)


def _thank(request: HttpRequest, obstacles: Sequence[str]) -> None:
    if obstacles:
        said = _("Your feedback is recorded. It cannot be used for training: %(why)s.")
        messages.success(request, said % {"why": "; ".join(obstacles)})
    else:
        messages.success(request, _("Thank you: your feedback is recorded and will be used for training."))


def open_next(request: HttpRequest, scene: Scene, nothing: str = "") -> HttpResponse:
    """Claim the next review of the address's filter and go there, else to the queue, which says what is wrong."""
    try:
        filters = ReviewFilters.bind_some(request.GET, scene.user).queue
        found = claim_review(project=scene.project, by=scene.user, filters=filters)
    except BadInputError:
        found, nothing = None, ""
    if found is None:
        if nothing:
            messages.info(request, nothing)
        answer = leave(scene, "review-list")
    else:
        answer = leave(scene, "review", found.pk)
    answer["Location"] += find_asked(request)
    return answer


def find_asked(request: HttpRequest) -> str:
    """What of the address narrows the queue, with its question mark; "" for the whole queue."""
    kept = {name: request.GET[name] for name in ReviewFilters.base_filters if request.GET.get(name)}
    return f"?{urlencode(kept)}" if kept else ""


def find_undo(request: HttpRequest, scene: Scene) -> Any:
    """The feedback this browser sent last, while it can still be undone."""
    feedback_id = request.session.get(UNDO)
    return find_undoable(scene.project, scene.user, feedback_id) if feedback_id is not None else None


@require_POST
@project_view(Right.REVIEWS_WRITE)
def keep_draft(request: HttpRequest, scene: Scene, review_id: int) -> HttpResponse:
    """Keep what is typed, for the script; the answer says which version it became."""
    review = find_review_or_404(scene, review_id)
    try:
        version = int(request.POST.get("draft_version") or 0)
        draft = save_draft(review=review, by=scene.user, data=_read_typed(request.POST), version=version)
    except ValueError:
        return JsonResponse({"message": _("The draft's version is no number.")}, status=400)
    except TentalisError as error:
        newer = getattr(error, "newer", None)
        return JsonResponse(
            {"message": str(error), "code": error.code, "version": newer.version if newer else 0}, status=error.status
        )
    return JsonResponse({"version": draft.version})


@require_POST
@project_view(Right.REVIEWS_WRITE)
def hold_review(request: HttpRequest, scene: Scene, review_id: int) -> HttpResponse:
    """Hold a review longer; the page at work repeats this while somebody is there."""
    review = find_review_or_404(scene, review_id)
    try:
        held = claims.renew_claim(review=review, by=scene.user)
    except TentalisError as error:
        return JsonResponse({"message": str(error), "code": error.code}, status=error.status)
    return JsonResponse({"until": held.lease_until.isoformat() if held.lease_until else None})


@require_POST
@project_view(Right.FEEDBACK_WRITE)
def preview_feedback(request: HttpRequest, scene: Scene, task_id: int) -> HttpResponse:
    """The fragment that says what a judgement would teach, from what is typed; a model is asked only by the button."""
    task = find_task_or_404(scene, task_id)
    form = FeedbackForm(request.POST, shown=_shown_of(scene, task, request.POST.get("review", "")))
    preview = preview_judgement(task, form, by=scene.user, may_ask="preview" in request.POST)
    return show(request, scene, "_review_preview", {"preview": preview, "task": task})


@require_GET
@project_view(Right.TASKS_READ)
def compare_attempts(request: HttpRequest, scene: Scene, task_id: int) -> HttpResponse:
    """What two attempts have in common and what not, as a fragment or as a page of its own."""
    task = find_task_or_404(scene, task_id)
    shown = _shown_of(scene, task, request.GET.get("review", ""))
    by_index = {str(index): one for one in shown for index in one.indices}
    left, right = (by_index.get(request.GET.get(side, "")) for side in ("left", "right"))
    if left is None or right is None:
        raise Http404("left and right must be attempts of the task")
    context = {
        "task": task,
        "left": left,
        "right": right,
        "diff": selectors.compare(left.attempt, right.attempt, whole=request.GET.get("what") == "whole"),
        "fragments": {"review_compare"},
    }
    return show(request, scene, "review_compare", context)


def find_task_or_404(scene: Scene, task_id: int) -> Task:
    return found_or_404(work.find_task(scene.project, task_id), f"no task {task_id}")


def find_review_or_404(scene: Scene, review_id: int) -> Review:
    parts = ("project", "task__worker", "task__submitted_by", "task__project", "claimed_by", "assigned_to")
    return get_object_or_404(Review.objects.select_related(*parts), project=scene.project, pk=review_id)


def _shown_of(scene: Scene, task: Task, review_id: str) -> list[Shown]:
    """The attempts by the names they have in this person's review of the task, else by their own."""
    review = None
    if review_id.isascii() and review_id.isdigit() and len(review_id) < 19:
        review = Review.objects.filter(task=task, pk=int(review_id)).first()
    return show_attempts(task, review=review, user=scene.user)


def _find_typed(review: Review | None, scene: Scene) -> dict[str, Any]:
    draft = find_draft(review, scene.user) if review is not None else None
    return {} if draft is None else {**read_draft(draft.data), "draft_version": draft.version}


def _read_typed(data: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in data.items() if name not in NOT_DRAFTED and value != ""}
