"""Keeping the loop running: why nothing trains, dead letters, the audit."""

from datetime import datetime, time, timedelta

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.rights import Right
from apps.audit.chain import check_newest
from apps.audit.kinds import Kind
from apps.base.days import read_day
from apps.base.errors import TentalisError
from apps.console.selectors import operations
from apps.console.selectors.health import read_health
from apps.console.selectors.ticked import DOINGS
from apps.console.selectors.timetable import read_timetable
from apps.console.selectors.workers import find_worker_names
from apps.console.views.frame import Scene, act, leave, project_view, read_number, show, tidy
from apps.console.views.training import read_choice
from apps.finding.failed import FailedFilters
from apps.finding.lists import list_rows
from apps.outbox.models import Segment
from apps.outbox.selectors import count_dead_by_error, find_dead
from apps.pipeline import dead_letters
from apps.reports.queues import find_open_queues
from apps.rollouts.selectors import why_nothing_trains


@require_GET
@project_view(Right.ROLLOUTS_READ)
def show_blockers(request: HttpRequest, scene: Scene) -> HttpResponse:
    context = {
        "findings": why_nothing_trains(scene.project),
        "timetable": read_timetable(scene.project, now=timezone.now()),
        "fragments": {"blockers"},
    }
    return show(request, scene, "blockers", context)


@require_GET
@project_view(Right.METRICS_READ)
def show_health(request: HttpRequest, scene: Scene) -> HttpResponse:
    """How everything is that the project's work needs."""
    return show(request, scene, "health", {"health": read_health(scene.project), "fragments": {"health"}})


@require_GET
@project_view(Right.TASKS_READ)
def list_dead_letters(request: HttpRequest, scene: Scene) -> HttpResponse:
    if (shorter := tidy(request)) is not None:
        return shorter
    kind, error = request.GET.get("kind", ""), request.GET.get("error", "")
    listing = list_rows(FailedFilters, find_dead(scene.project.pk), request.GET, scene.user, limit=operations.PAGE)
    errors = count_dead_by_error(scene.project.pk, kind=kind)
    context = {
        "listing": listing,
        "error": error,
        "errors": errors,
        "count": listing.count if listing.is_filtered else sum(errors.values()),
        "letters": [operations.DeadLetter(segment) for segment in listing.rows],
        "asked": {name: request.GET[name] for name in FailedFilters.base_filters if name in request.GET},
        "known": {"worker": find_worker_names(scene.project)},
        "may_act": scene.may(Right.PIPELINE_WRITE) and bool(listing.rows),
        "doings": DOINGS["failed"],
        "kind": kind,
        "kinds": list(operations.PAGE_OF_SEGMENT),
        "depths": find_open_queues(scene.project),
        "fragments": {"dead_letters"},
    }
    return show(request, scene, "dead_letters", context, status=listing.status)


@require_POST
@project_view(Right.PIPELINE_WRITE)
def replay(request: HttpRequest, scene: Scene, segment_id: int) -> HttpResponse:
    """Take a dead letter back to work."""
    segment = get_object_or_404(Segment, project_id=scene.project.pk, pk=segment_id)
    done = _("%(kind)s of %(id)s is at work again.") % {"kind": segment.kind, "id": segment.subject_id}
    act(request, done, lambda: dead_letters.replay(segment=segment, by=scene.user))
    return leave(scene, "dead-letters")


@require_POST
@project_view(Right.PIPELINE_WRITE)
def replay_all(request: HttpRequest, scene: Scene) -> HttpResponse:
    """Take back to work what the page's filters show, on this page and the next ones."""
    asked = {name: str(value) for name, value in request.POST.items() if name != "csrfmiddlewaretoken" and value}
    try:
        found = dead_letters.replay_all(project=scene.project, by=scene.user, filters=asked)
    except TentalisError as error:
        messages.error(request, str(error))
        return leave(scene, "dead-letters")
    said = ngettext("%(n)s is at work again.", "%(n)s are at work again.", found.taken) % {"n": found.taken}
    if found.refused:
        said += " " + _("%(n)s could not be taken up: they are at work already.") % {"n": found.refused}
    if found.left:
        said += " " + _("%(n)s are left: press it again.") % {"n": found.left}
    (messages.success if found.taken else messages.warning)(request, said)
    return leave(scene, "dead-letters")


@require_GET
@project_view(Right.AUDIT_READ)
def show_audit(request: HttpRequest, scene: Scene) -> HttpResponse:
    wanted = operations.AuditFilter(
        kind=read_choice(request, "kind", Kind.values),
        actor=request.GET.get("actor", "").strip(),
        subject_type=request.GET.get("subject", "").strip(),
        subject_id=read_number(request, "id"),
        since=_read_day(request, "since"),
        until=_read_day(request, "until", ends=True),
    )
    entries, older = operations.find_audit(scene.project, wanted=wanted, before=read_number(request, "before"))
    is_whole = "fragment" not in request.GET
    context = {
        "entries": entries,
        "older": older,
        "wanted": wanted,
        "since": request.GET.get("since", ""),
        "until": request.GET.get("until", ""),
        "kinds": Kind.values,
        "subjects": operations.find_subject_types(scene.project) if is_whole else (),
        "chain": check_newest() if is_whole else None,
        "fragments": {"audit"},
    }
    return show(request, scene, "audit", context)


def _read_day(request: HttpRequest, name: str, *, ends: bool = False) -> datetime | None:
    """Midnight at which a day of the query string begins (or ends), in the viewer's zone; None where there is none.

    Raises:
        Http404: it is no day.
    """
    text = request.GET.get(name, "")
    if not text:
        return None
    day = read_day(text)
    if day is None:
        raise Http404(f"{name} must be a day such as 2026-11-20")
    return timezone.make_aware(datetime.combine(day + timedelta(days=int(ends)), time.min))
