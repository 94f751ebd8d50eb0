"""One judgement for many reviews: what it would touch, how far it is, and taking it back."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.rights import Right
from apps.base.errors import BadInputError, TentalisError
from apps.console.forms import show_error
from apps.console.review_forms import CONFIRM_ABOVE, ActionForm, BulkForm
from apps.console.selectors.review_queue import find_reviewers, require_manager
from apps.console.selectors.ticked import DOINGS, Ticked, find_ticked
from apps.console.views.frame import (
    Scene,
    act,
    find_page,
    know_names,
    leave,
    posted,
    project_view,
    show,
    tidy,
)
from apps.console.views.judging import find_asked
from apps.feedback import bulk as bulk_judgements
from apps.feedback.models import BulkJudgement, Review
from apps.feedback.queue import EVERYTHING, count_queue
from apps.finding.lists import read_address
from apps.finding.reviews import ReviewFilters
from apps.pipeline import bulk as bulks
from apps.tasks.selectors import BoundedCount

LISTS = {"tasks": "task-list", "reviews": "review-list", "failed": "dead-letters"}


@require_http_methods(["GET", "POST"])
@project_view(Right.REVIEWS_WRITE)
def prepare_bulk(request: HttpRequest, scene: Scene) -> HttpResponse:
    """Choose by a rule, see how many it is, say what is said of each; above a hundred, type the number."""
    require_manager(scene.project, scene.user)
    if request.method == "GET" and (shorter := tidy(request)) is not None:
        return shorter
    listing = read_address(ReviewFilters, Review.objects.none(), request.GET, scene.user)
    filters = EVERYTHING if listing.errors else listing.filters.queue
    count = BoundedCount(0) if listing.errors else count_queue(scene.project, scene.user, filters)
    form = BulkForm(posted(request), count=count)
    status = 400 if request.method == "POST" else listing.status
    if not listing.errors and form.is_valid():
        words = {name: form.cleaned_data[name] for name in ("score", "text")}
        try:
            bulk = bulks.start(
                project=scene.project,
                by=scene.user,
                filters=filters,
                judgement=words,
                confirmed=form.cleaned_data["expected"],
            )
        except TentalisError as error:
            show_error(form, error)
            status = error.status
        else:
            return leave(scene, "bulk", bulk.pk)
    context = {
        "form": form,
        "count": count,
        "confirm_above": CONFIRM_ABOVE,
        "listing": listing,
        "known": know_names(scene),
        "query": find_asked(request),
        "earlier": BulkJudgement.objects.filter(project=scene.project).select_related("by")[:10],
    }
    return show(request, scene, "review_bulk_new", context, status=status)


@require_http_methods(["GET", "POST"])
@project_view()
def prepare_action(request: HttpRequest, scene: Scene) -> HttpResponse:
    """Say what will happen to ticked rows, and to how many; then do it in the background."""
    require_manager(scene.project, scene.user)
    of, action = request.GET.get("of", ""), request.GET.get("action", "")
    doing = DOINGS.get(of, {}).get(action)
    back = find_page(scene, LISTS.get(of, "task-list"))
    if doing is None:
        messages.error(request, _("There is no such action: tick rows of a list and choose an action above it."))
        return redirect(back)
    try:
        ticked = find_ticked(scene.project, scene.user, of=of, action=action, query=request.GET)
    except BadInputError as error:
        messages.error(request, str(error))
        return redirect(back)
    people = [user.username for user in find_reviewers(scene.project)]
    form = ActionForm(posted(request), action=action, count=len(ticked.ids), people=people)
    status = 400 if request.method == "POST" else 200
    if form.is_valid() and ticked.ids:
        try:
            bulk = _start(scene, action, ticked, form.words)
        except TentalisError as error:
            show_error(form, error)
            status = error.status
        else:
            return leave(scene, "bulk", bulk.pk)
    context = {"doing": doing, "ticked": ticked, "acted_on": len(ticked.ids), "form": form, "back": back, "of": of}
    return show(request, scene, "bulk_act", context, status=status)


def _start(scene: Scene, action: str, ticked: Ticked, words: dict[str, Any]) -> BulkJudgement:
    if action == "judge":
        return bulks.start(
            project=scene.project,
            by=scene.user,
            filters=EVERYTHING,
            judgement=words,
            confirmed=len(ticked.ids),
            chosen=ticked.ids,
        )
    return bulks.start_action(project=scene.project, by=scene.user, action=action, chosen=ticked.ids, details=words)


@require_GET
@project_view(Right.REVIEWS_READ)
def show_bulk(request: HttpRequest, scene: Scene, bulk_id: int) -> HttpResponse:
    bulk = _bulk_or_404(scene, bulk_id)
    context = {"bulk": bulk, "subject": f"bulkjudgement:{bulk.pk}", "fragments": {"review_bulk"}}
    return show(request, scene, "review_bulk", context)


@require_POST
@project_view(Right.REVIEWS_WRITE)
def cancel_bulk(request: HttpRequest, scene: Scene, bulk_id: int) -> HttpResponse:
    bulk = _bulk_or_404(scene, bulk_id)
    act(request, _("Stopping after the current row."), lambda: bulk_judgements.cancel_bulk(bulk=bulk, by=scene.user))
    return leave(scene, "bulk", bulk_id)


@require_POST
@project_view(Right.REVIEWS_WRITE)
def undo_bulk(request: HttpRequest, scene: Scene, bulk_id: int) -> HttpResponse:
    bulk = _bulk_or_404(scene, bulk_id)
    if act(request, _("The judgements are being retracted."), lambda: bulks.begin_undo(bulk=bulk, by=scene.user)):
        messages.info(request, _("Adapters already trained on them stay; the report lists them."))
    return leave(scene, "bulk", bulk_id)


def _bulk_or_404(scene: Scene, bulk_id: int) -> BulkJudgement:
    return get_object_or_404(BulkJudgement.objects.select_related("by", "project"), project=scene.project, pk=bulk_id)
