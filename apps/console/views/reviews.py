"""The queue of reviews, and taking one, giving it back, passing it on."""

from datetime import timedelta

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.base.errors import TentalisError
from apps.console.review_forms import AppealForm, SkipForm
from apps.console.selectors.review import find_own_feedback, find_standing_feedback, reveal_attempts, show_attempts
from apps.console.selectors.review_queue import (
    find_ai_reviews,
    may_manage,
    say_priority,
    say_purpose,
)
from apps.console.selectors.screenshots import find_screenshots
from apps.console.selectors.ticked import DOINGS
from apps.console.views.frame import (
    Scene,
    act,
    fill_in,
    found_or_404,
    know_names,
    leave,
    posted,
    project_view,
    require,
    show,
    tidy,
)
from apps.console.views.judging import (
    UNDO,
    answer_feedback,
    find_asked,
    find_review_or_404,
    find_undo,
    open_next,
)
from apps.feedback import appeals, claims
from apps.feedback.models import Feedback, Review
from apps.feedback.queue import count_queue, find_waiting
from apps.finding.lists import list_rows
from apps.finding.reviews import ReviewFilters
from apps.pipeline import flow, judging
from apps.rollouts.services import find_obstacles

PAGE = 25
SNOOZES = {"1": timedelta(hours=1), "4": timedelta(hours=4), "24": timedelta(days=1), "72": timedelta(days=3)}


@require_GET
@project_view(Right.REVIEWS_READ)
def list_reviews(request: HttpRequest, scene: Scene) -> HttpResponse:
    if (shorter := tidy(request)) is not None:
        return shorter
    waiting = find_waiting(scene.project, with_snoozed=request.GET.get("held") == "snoozed")
    rows = waiting.select_related("project", "task__worker", "claimed_by", "assigned_to")
    listing = list_rows(ReviewFilters, rows, request.GET, scene.user, limit=PAGE)
    is_whole = not listing.is_filtered
    can_assign = may_manage(scene.project, scene.user)
    context = {
        "rows": [(review, say_priority(review), say_purpose(review)) for review in listing.rows],
        "listing": listing,
        "count": count_queue(scene.project, scene.user) if is_whole else listing.count,
        "query": find_asked(request),
        "known": know_names(scene),
        "managers": find_ai_reviews(scene.project) if is_whole and not request.GET.get("after") else [],
        "may_manage": can_assign,
        "may_act": can_assign and bool(listing.rows),
        "doings": DOINGS["reviews"],
        "undoable": find_undo(request, scene),
        "fragments": {"reviews"},
    }
    return show(request, scene, "reviews", context, status=listing.status)


@require_POST
@project_view(Right.REVIEWS_WRITE)
def take_next_review(request: HttpRequest, scene: Scene) -> HttpResponse:
    """Claim the next review of the filter that nobody has open."""
    nothing = _("No review is waiting for you: every open one is held already.")
    return open_next(request, scene, nothing)


@require_http_methods(["GET", "POST"])
@project_view(Right.REVIEWS_READ)
def show_review(request: HttpRequest, scene: Scene, review_id: int) -> HttpResponse:
    """The form, for whoever holds the review; the offer to take it; or what stood behind it, once it is judged."""
    review = find_review_or_404(scene, review_id)
    if request.method == "POST":
        require(scene, Right.REVIEWS_WRITE)
        return answer_feedback(request, scene, review.task, review=review)
    if review.state != Review.State.OPEN:
        feedback = find_own_feedback(review, scene.user)
        if feedback is not None:
            return _reveal(request, scene, review, feedback)
        messages.info(request, _("This review is no longer open; this is its task."))
        return leave(scene, "task", review.task_id)
    if review.claimed_by_id != scene.user.pk:
        context = {
            "review": review,
            "task": review.task,
            "obstacles": find_obstacles(review.task),
            "undoable": find_undo(request, scene),
        }
        return show(request, scene, "review_offer", context)
    return answer_feedback(request, scene, review.task, review=review)


def _reveal(request: HttpRequest, scene: Scene, review: Review, feedback: Feedback) -> HttpResponse:
    shown = show_attempts(review.task, review=review, user=scene.user)
    context = {
        "review": review,
        "task": review.task,
        "feedback": feedback,
        "attempts": reveal_attempts(feedback, shown),
        "screenshots": find_screenshots(review.task, [one.attempt for one in shown]),
        "undoable": find_undo(request, scene),
    }
    return show(request, scene, "review_reveal", context)


@require_POST
@project_view(Right.REVIEWS_WRITE)
def claim_review(request: HttpRequest, scene: Scene, review_id: int) -> HttpResponse:
    """Take a review; one's own is held longer."""
    review = find_review_or_404(scene, review_id)
    try:
        if review.claimed_by_id == scene.user.pk:
            claims.renew_claim(review=review, by=scene.user)
        else:
            claims.claim(review=review, by=scene.user)
    except TentalisError as error:
        messages.error(request, str(error))
        return leave(scene, "review-list")
    answer = leave(scene, "review", review_id)
    answer["Location"] += find_asked(request)
    return answer


@require_POST
@project_view(Right.REVIEWS_WRITE)
def release_review(request: HttpRequest, scene: Scene, review_id: int) -> HttpResponse:
    review = find_review_or_404(scene, review_id)
    act(
        request,
        _("The review is back in the queue."),
        lambda: claims.release_review(review=review, by=scene.user),
    )
    return leave(scene, "review-list")


@require_http_methods(["GET", "POST"])
@project_view(Right.REVIEWS_WRITE)
def skip_review(request: HttpRequest, scene: Scene, review_id: int) -> HttpResponse:
    """Pass a review over, with a reason, and say what becomes of it."""
    review = find_review_or_404(scene, review_id)
    form = SkipForm(posted(request))
    _done, status = fill_in(request, form, lambda: flow.skip_review(review=review, by=scene.user, **form.cleaned_data))
    if status is None:
        messages.success(request, _("The review is skipped."))
        return open_next(request, scene)
    context = {"form": form, "review": review, "task": review.task, "query": find_asked(request)}
    return show(request, scene, "review_skip", context, status=status)


@require_POST
@project_view(Right.REVIEWS_WRITE)
def assign_review(request: HttpRequest, scene: Scene, review_id: int) -> HttpResponse:
    """Say whose a review is; an empty choice frees it for anyone."""
    review = find_review_or_404(scene, review_id)
    name = request.POST.get("to", "")
    to = User.objects.filter(memberships__project=scene.project, username=name).first() if name else None
    if name and to is None:
        raise Http404(f"no member {name}")
    done = (
        _("The review is assigned to %(name)s.") % {"name": to.username}
        if to
        else _("The review is no longer assigned.")
    )
    act(request, done, lambda: claims.assign_review(review=review, to=to, by=scene.user))
    return _back_to_list(request, scene)


@require_POST
@project_view(Right.REVIEWS_WRITE)
def snooze_review(request: HttpRequest, scene: Scene, review_id: int) -> HttpResponse:
    """Let nobody be given a review for some hours; an empty choice wakes it."""
    review = find_review_or_404(scene, review_id)
    hours = request.POST.get("hours", "")
    if hours and hours not in SNOOZES:
        raise Http404(f"no snooze of {hours} hours")
    until = timezone.now() + SNOOZES[hours] if hours else None
    done = _("The review is snoozed.") if hours else _("The snooze is ended.")
    act(request, done, lambda: claims.snooze_review(review=review, until=until, by=scene.user))
    return _back_to_list(request, scene)


@require_POST
@project_view(Right.REVIEWS_WRITE)
def undo_feedback(request: HttpRequest, scene: Scene, feedback_id: int) -> HttpResponse:
    """Take a judgement back as if it had not been, and go on with it."""
    feedback = _feedback_or_404(scene, feedback_id)
    try:
        review = judging.undo(feedback, by=scene.user)
    except TentalisError as error:
        messages.error(request, str(error))
        return leave(scene, "review-list")
    request.session.pop(UNDO, None)
    messages.success(request, _("Undone: your judgement is open for editing again."))
    return leave(scene, "review", review.pk)


@require_POST
@project_view(Right.FEEDBACK_WRITE)
def retract_feedback(request: HttpRequest, scene: Scene, feedback_id: int) -> HttpResponse:
    """Let a judgement count for nothing from now on; what was learned from it stays learned."""
    feedback = _feedback_or_404(scene, feedback_id)
    try:
        done = judging.retract(feedback, by=scene.user, reason=request.POST.get("reason", ""))
    except TentalisError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, _("The judgement is retracted: %(done)s") % {"done": done})
    return leave(scene, "task", feedback.task_id)


@require_http_methods(["GET", "POST"])
@project_view(Right.REVIEWS_WRITE)
def appeal(request: HttpRequest, scene: Scene, feedback_id: int) -> HttpResponse:
    """Say that a judgement is wrong: somebody else judges the task anew."""
    feedback = _feedback_or_404(scene, feedback_id)
    form = AppealForm(posted(request))
    opened, status = fill_in(
        request, form, lambda: appeals.open_appeal(feedback=feedback, by=scene.user, **form.cleaned_data)
    )
    if status is None:
        messages.success(request, _("The appeal is open: another reviewer will judge the task."))
        if not appeals.has_judge(opened):
            messages.warning(request, _("No other member may review it yet; invite another reviewer."))
        return leave(scene, "task", feedback.task_id)
    may_retract = feedback.author == scene.user.handle or may_manage(scene.project, scene.user)
    context = {"form": form, "feedback": feedback, "task": feedback.task, "may_retract": may_retract}
    return show(request, scene, "review_appeal", context, status=status)


def _feedback_or_404(scene: Scene, feedback_id: int) -> Feedback:
    return found_or_404(find_standing_feedback(scene.project, feedback_id), f"no feedback {feedback_id}")


def _back_to_list(request: HttpRequest, scene: Scene) -> HttpResponse:
    answer = leave(scene, "review-list")
    answer["Location"] += find_asked(request)
    return answer
