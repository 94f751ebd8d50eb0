"""Keeping the loop running: why nothing trains, dead letters, the audit."""

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.rights import Right
from apps.audit.kinds import Kind
from apps.console.selectors import upkeep
from apps.console.views.frame import Scene, act, leave, project_view, read_number, show
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.rollouts.selectors import why_nothing_trains


@require_GET
@project_view(Right.ROLLOUTS_READ)
def show_blockers(request: HttpRequest, scene: Scene) -> HttpResponse:
    context = {"findings": why_nothing_trains(scene.project), "fragments": {"blockers"}}
    return show(request, scene, "blockers", context)


@require_GET
@project_view(Right.TASKS_READ)
def list_dead_letters(request: HttpRequest, scene: Scene) -> HttpResponse:
    context = {
        "letters": upkeep.find_dead_letters(scene.project),
        "depths": upkeep.find_queue_depths(scene.project),
        "fragments": {"dead_letters"},
    }
    return show(request, scene, "dead_letters", context)


@require_POST
@project_view(Right.PIPELINE_WRITE)
def replay(request: HttpRequest, scene: Scene, segment_id: int) -> HttpResponse:
    """Take a dead letter back to work."""
    segment = Segment.objects.filter(project_id=scene.project.pk, pk=segment_id).first()
    if segment is None:
        raise Http404(f"no segment {segment_id}")
    act(request, f"{segment.kind} of {segment.subject_id} is at work again.", lambda: _replay(segment, scene))
    return leave(scene, "dead-letters")


@require_GET
@project_view(Right.AUDIT_READ)
def show_audit(request: HttpRequest, scene: Scene) -> HttpResponse:
    kind, actor = request.GET.get("kind", ""), request.GET.get("actor", "").strip()
    if kind and kind not in Kind.values:
        raise Http404(f"no kind {kind}")
    entries, older = upkeep.find_audit(scene.project, kind=kind, actor=actor, before=read_number(request, "before"))
    context = {
        "entries": entries,
        "older": older,
        "kind": kind,
        "actor": actor,
        "kinds": Kind.values,
        "fragments": {"audit"},
    }
    return show(request, scene, "audit", context)


def _replay(segment: Segment, scene: Scene) -> Segment:
    return flow.replay(segment=segment, by=scene.user)
