"""One judgement for many reviews: what it would touch, how far it is, and taking it back."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.rights import Right
from apps.base.errors import TentalisError
from apps.console.forms import show_error
from apps.console.review_forms import CONFIRM_ABOVE, BulkForm
from apps.console.selectors.review_queue import find_narrowings, require_manager, write_query
from apps.console.views.frame import Scene, act, leave, posted, project_view, show
from apps.console.views.judging import read_filters
from apps.feedback.models import BulkJudgement
from apps.feedback.services import count_queue
from apps.pipeline import flow


@require_http_methods(["GET", "POST"])
@project_view(Right.REVIEWS_WRITE)
def prepare_bulk(request: HttpRequest, scene: Scene) -> HttpResponse:
    """Choose by a rule, see how many it is, say what is said of each; above a hundred, type the number."""
    require_manager(scene.project, scene.user)
    filters = read_filters(request)
    count = count_queue(scene.project, scene.user, filters)
    form = BulkForm(posted(request), count=count.number)
    status = 400 if request.method == "POST" else 200
    if form.is_valid():
        words = {name: form.cleaned_data[name] for name in ("score", "text")}
        try:
            bulk = flow.start_bulk(
                project=scene.project,
                by=scene.user,
                filters=filters,
                words=words,
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
        "narrowings": find_narrowings(scene.project, filters),
        "filters": filters,
        "query": write_query(filters),
        "earlier": BulkJudgement.objects.filter(project=scene.project).select_related("by")[:10],
    }
    return show(request, scene, "review_bulk_new", context, status=status)


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
    act(request, _("It stops after the review it is at."), lambda: flow.cancel_bulk(bulk=bulk, by=scene.user))
    return leave(scene, "bulk", bulk_id)


@require_POST
@project_view(Right.REVIEWS_WRITE)
def undo_bulk(request: HttpRequest, scene: Scene, bulk_id: int) -> HttpResponse:
    bulk = _bulk_or_404(scene, bulk_id)
    if act(request, _("It is being taken back."), lambda: flow.undo_bulk(bulk=bulk, by=scene.user)):
        messages.info(request, _("What was already learned from it stays learned; the report says which."))
    return leave(scene, "bulk", bulk_id)


def _bulk_or_404(scene: Scene, bulk_id: int) -> BulkJudgement:
    bulk = BulkJudgement.objects.filter(project=scene.project, pk=bulk_id).select_related("by", "project").first()
    if bulk is None:
        raise Http404(f"no bulk judgement {bulk_id}")
    return bulk
