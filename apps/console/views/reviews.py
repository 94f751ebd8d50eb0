"""Reviews: what waits for a manager, and one of them at work."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.rights import Right
from apps.base.errors import TentalisError
from apps.console.forms import SkipForm
from apps.console.selectors import work
from apps.console.views.frame import Scene, act, leave, posted, project_view, show
from apps.console.views.tasks import answer_feedback
from apps.feedback import services as reviews
from apps.feedback.models import Review
from apps.pipeline import flow


@require_GET
@project_view(Right.REVIEWS_READ)
def list_reviews(request: HttpRequest, scene: Scene) -> HttpResponse:
    found = work.find_open_reviews(scene.project)
    context = {
        "people": [review for review in found if review.audience == Review.Audience.HUMAN],
        "managers": [review for review in found if review.audience == Review.Audience.AI],
        "fragments": {"reviews"},
    }
    return show(request, scene, "reviews", context)


@require_POST
@project_view(Right.REVIEWS_WRITE)
def take_next_review(request: HttpRequest, scene: Scene) -> HttpResponse:
    """Claim the oldest review nobody has open."""
    review = reviews.claim_review(project=scene.project, by=scene.user)
    if review is None:
        messages.info(request, "Nothing waits for you: every open review is in somebody's hands or done.")
        return leave(scene, "review-list")
    return leave(scene, "review", review.pk)


@require_http_methods(["GET", "POST"])
@project_view(Right.REVIEWS_READ)
def show_review(request: HttpRequest, scene: Scene, review_id: int) -> HttpResponse:
    """The form, for whoever holds the review; else the offer to take it."""
    review = _review_or_404(scene, review_id)
    if request.method == "POST":
        return answer_feedback(request, scene, review.task, review=review)
    if review.state != Review.State.OPEN:
        messages.info(request, f"This review is {review.get_state_display().lower()}; this is its task.")
        return leave(scene, "task", review.task_id)
    if review.claimed_by_id != scene.user.pk:
        return show(request, scene, "review_offer", {"review": review, "task": review.task})
    return answer_feedback(request, scene, review.task, review=review)


@require_POST
@project_view(Right.REVIEWS_WRITE)
def claim_review(request: HttpRequest, scene: Scene, review_id: int) -> HttpResponse:
    """Take a review, or hold it longer; the page at work repeats this while somebody types."""
    review = _review_or_404(scene, review_id)
    try:
        if review.claimed_by_id == scene.user.pk:
            reviews.renew_claim(review=review, by=scene.user)
        else:
            reviews.claim(review=review, by=scene.user)
    except TentalisError as error:
        messages.error(request, str(error))
        return leave(scene, "review-list")
    return leave(scene, "review", review_id)


@require_POST
@project_view(Right.REVIEWS_WRITE)
def release_review(request: HttpRequest, scene: Scene, review_id: int) -> HttpResponse:
    review = _review_or_404(scene, review_id)
    act(request, "The review is free for others again.", lambda: reviews.release_review(review=review, by=scene.user))
    return leave(scene, "review-list")


@require_http_methods(["GET", "POST"])
@project_view(Right.REVIEWS_WRITE)
def skip_review(request: HttpRequest, scene: Scene, review_id: int) -> HttpResponse:
    review = _review_or_404(scene, review_id)
    form = SkipForm(posted(request))
    if form.is_valid():
        reason = form.cleaned_data["reason"]
        if act(
            request, "The review is skipped.", lambda: flow.skip_review(review=review, by=scene.user, reason=reason)
        ):
            return leave(scene, "review-list")
    context = {"form": form, "review": review, "task": review.task}
    return show(request, scene, "review_skip", context, status=400 if request.method == "POST" else 200)


def _review_or_404(scene: Scene, review_id: int) -> Review:
    found = Review.objects.filter(project=scene.project, pk=review_id)
    review = found.select_related("task__worker", "task__submitted_by", "task__project", "claimed_by").first()
    if review is None:
        raise Http404(f"no review {review_id}")
    return review
