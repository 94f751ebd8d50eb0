"""How well raters judge: all of them, one of them, and back to work after quarantine."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.rights import Right
from apps.calibration import favours
from apps.calibration import services as calibration
from apps.calibration.models import FavourScreen, Rater
from apps.console.selectors import quality
from apps.console.selectors.managers import find_fits
from apps.console.views.frame import Scene, act, leave, project_view, read_number, show
from apps.feedback import gold, rules
from apps.feedback.favours import screen_project
from apps.feedback.judges import find_named_judges
from apps.feedback.models import Feedback, GoldItem
from apps.feedback.unnamed import count_unnamed
from apps.judges.selectors import list_judges
from apps.pipeline import flow


@require_GET
@project_view(Right.REVIEWS_READ)
def show_quality(request: HttpRequest, scene: Scene) -> HttpResponse:
    only = "" if _sees_all(scene) else scene.user.handle
    probed = list_judges(scene.project, find_named_judges(scene.project)) if _sees_probes(scene) else []
    below = [one.standing.probe for one in probed if one.standing.probe and one.standing.barred]
    context = {
        "view": quality.show_quality(scene.project, only=only),
        "sees_all": _sees_all(scene),
        "fits": find_fits(scene.project) if _sees_all(scene) and scene.may(Right.RUNS_READ) else (),
        "scorers": quality.find_scorers(scene.project) if _sees_all(scene) and scene.may(Right.RUNS_READ) else (),
        "probed": probed,
        "unnamed": count_unnamed(scene.project, below),
        "favours": FavourScreen.objects.filter(project=scene.project).first() if _sees_all(scene) else None,
        "may_probe": scene.may(Right.EVALS_WRITE),
        "gold": gold.list_gold(scene.project) if _sees_all(scene) else (),
        "gold_rate": rules.validate_review_policy(scene.project.review_policy).gold_rate,
        "fragments": {"quality"},
    }
    return show(request, scene, "quality", context)


@require_GET
@project_view(Right.REVIEWS_READ)
def show_rater(request: HttpRequest, scene: Scene, rater_id: int) -> HttpResponse:
    """One's own page, and everybody's for managers and auditors."""
    view = quality.show_rater(
        scene.project, rater_id, before=read_number(request, "before"), with_peers=_sees_all(scene)
    )
    if view is None or not (_sees_all(scene) or view.row.rater.handle == scene.user.handle):
        raise Http404(f"no rater {rater_id}")
    context = {
        "view": view,
        "row": view.row,
        "rater": view.row.rater,
        "older": view.older,
        "sees_all": _sees_all(scene),
        "may_reinstate": scene.may(Right.PIPELINE_WRITE) and view.row.rater.handle != scene.user.handle,
        "fragments": {"quality_rater"},
    }
    return show(request, scene, "quality_rater", context)


@require_POST
@project_view(Right.PIPELINE_WRITE)
def reinstate_rater(request: HttpRequest, scene: Scene, rater_id: int) -> HttpResponse:
    rater = get_object_or_404(Rater, project=scene.project, pk=rater_id)
    reason = request.POST.get("reason", "")
    done = _("%(name)s is reinstated and starts as an unknown rater.") % {"name": quality.name_rater(rater.handle)}
    act(
        request,
        done,
        lambda: calibration.reinstate(project=scene.project, handle=rater.handle, reason=reason, by=scene.user),
    )
    return leave(scene, "rater", rater_id)


@require_POST
@project_view(Right.PIPELINE_WRITE)
def quarantine_rater(request: HttpRequest, scene: Scene) -> HttpResponse:
    words = {name: request.POST.get(name, "") for name in ("handle", "reason")}
    done = _("%(name)s is quarantined: its judgements are not used.") % {"name": quality.name_rater(words["handle"])}
    act(request, done, lambda: calibration.quarantine(project=scene.project, by=scene.user, **words))
    return leave(scene, "quality")


@require_POST
@project_view(Right.PIPELINE_WRITE)
def look_for_favours(request: HttpRequest, scene: Scene) -> HttpResponse:
    act(request, _("Looked at who favours whom."), lambda: screen_project(project=scene.project, by=scene.user))
    return leave(scene, "quality")


@require_POST
@project_view(Right.PIPELINE_WRITE)
def dismiss_group(request: HttpRequest, scene: Scene, key: str) -> HttpResponse:
    reason = request.POST.get("reason", "")
    done = _("Noted that this was looked into.")
    act(request, done, lambda: favours.dismiss_group(project=scene.project, key=key, reason=reason, by=scene.user))
    return leave(scene, "quality")


@require_POST
@project_view(Right.PIPELINE_WRITE)
def add_gold(request: HttpRequest, scene: Scene, feedback_id: int) -> HttpResponse:
    """Hand out the task of a judgement, which is taken for the truth, as a control item."""
    said = Feedback.objects.select_related("task__project", "preferred_attempt")
    reference = get_object_or_404(said, project=scene.project, pk=feedback_id)
    done = _("Added to the control items: it is handed out for review unmarked.")
    act(request, done, lambda: gold.add_gold(task=reference.task, by=scene.user, reference=reference))
    if request.POST.get("then") == "review" and reference.review_id is not None:
        return leave(scene, "review", reference.review_id)
    return leave(scene, "feedback", feedback_id)


@require_POST
@project_view(Right.PIPELINE_WRITE)
def remove_gold(request: HttpRequest, scene: Scene, gold_id: int) -> HttpResponse:
    item = get_object_or_404(GoldItem.objects.select_related("project"), project=scene.project, pk=gold_id)
    done = _("Removed from the control items; judgements of it are kept.")
    act(request, done, lambda: gold.remove_gold(item=item, by=scene.user))
    return leave(scene, "quality")


@require_POST
@project_view(Right.EVALS_WRITE)
def probe_judge(request: HttpRequest, scene: Scene) -> HttpResponse:
    """Have a judge probed."""
    done = _("The judge is being probed; this page shows what comes of it.")
    model = request.POST.get("model", "")
    act(request, done, lambda: flow.ask_probe(project=scene.project, model=model, by=scene.user))
    return leave(scene, "quality")


def _sees_probes(scene: Scene) -> bool:
    return _sees_all(scene) and scene.may(Right.EVALS_READ)


def _sees_all(scene: Scene) -> bool:
    """Owners, managers and auditors see everybody; others only themselves."""
    return scene.may(Right.AUDIT_READ)
