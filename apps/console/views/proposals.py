"""Approvals: what agents want to do, a person's word on it, and what they must ask."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.rights import Right
from apps.base.errors import BadInputError, TentalisError
from apps.console.forms import show_error
from apps.console.forms_proposals import FORMS, DecisionForm, RulesForm
from apps.console.selectors import proposals
from apps.console.selectors.proposals import ProposalView
from apps.console.views.frame import Scene, found_or_404, leave, project_view, read_number, show
from apps.supervision import services as supervision
from apps.supervision.models import Proposal
from apps.workers.models import Worker
from apps.workers.services import change_worker

DONE = {
    "approve": gettext_lazy("Approved: the agent goes on."),
    "reject": gettext_lazy("Rejected: the agent was told why."),
    "edit": gettext_lazy("Approved with your changes."),
    "hint": gettext_lazy("Sent back with your hint."),
    "take_over": gettext_lazy("You took over: the agent's work ends with your answer."),
}


@require_GET
@project_view(Right.REVIEWS_READ)
def list_proposals(request: HttpRequest, scene: Scene) -> HttpResponse:
    """What waits, the most urgent first."""
    waiting = proposals.find_waiting(scene.project)
    context = {
        "cards": [make_card(view, scene) for view in waiting],
        "recent": proposals.find_just_decided(scene.project),
        "total": proposals.count_waiting(scene.project) if len(waiting) == proposals.WAITING else len(waiting),
        "workers": [] if waiting else proposals.find_asking_workers(scene.project),
        "fragments": {"proposals"},
        "tab": "waiting",
    }
    return show(request, scene, "proposals", context)


@require_GET
@project_view(Right.REVIEWS_READ)
def list_decided(request: HttpRequest, scene: Scene) -> HttpResponse:
    """What was decided, by whom and how fast."""
    found = proposals.find_decided(scene.project, before=read_number(request, "before"))
    context = {
        "decided": found[: proposals.PAGE],
        "older": found[proposals.PAGE - 1].row.pk if len(found) > proposals.PAGE else None,
        "fragments": {"proposals_decided"},
        "tab": "decided",
    }
    return show(request, scene, "proposals_decided", context)


@require_GET
@project_view(Right.REVIEWS_READ)
def show_proposal(request: HttpRequest, scene: Scene, proposal_id: int) -> HttpResponse:
    return show_card(request, scene, _proposal_or_404(scene, proposal_id))


@require_http_methods(["GET", "POST"])
@project_view(Right.REVIEWS_WRITE)
def decide_proposal(request: HttpRequest, scene: Scene, proposal_id: int) -> HttpResponse:
    """One button or form of a card. What was typed survives every refusal that can be mended.

    Opened, as after signing in again or by a live update, it is the proposal's page.
    """
    row = _proposal_or_404(scene, proposal_id)
    if request.method == "GET":
        return show_card(request, scene, row)
    word = request.POST.get("decision", "")
    if word not in FORMS:
        raise Http404(f"no decision {word!r:.40}")
    form = FORMS[word](request.POST, proposal=row)
    status = 400
    if form.is_valid():
        try:
            supervision.decide(proposal=row, decision=word, by=scene.user, **form.said)
        except BadInputError as error:
            show_error(form, error)
        except TentalisError as error:
            messages.error(request, str(error))
            return _back(scene)
        else:
            messages.success(request, DONE[word])
            return _back(scene)
    return show_card(request, scene, row, form, status=status)


@require_GET
@project_view()
def count_proposals(request: HttpRequest, scene: Scene) -> HttpResponse:
    """The number beside the menu's entry, as it is now."""
    return show(request, scene, "_proposal_count", {})


@require_GET
@project_view(Right.REVIEWS_READ)
def list_rules(request: HttpRequest, scene: Scene) -> HttpResponse:
    """What each worker must ask."""
    return show_rules(request, scene, None)


@require_POST
@project_view(Right.WORKERS_WRITE)
def change_rules(request: HttpRequest, scene: Scene, worker_id: int) -> HttpResponse:
    worker = get_object_or_404(Worker, project=scene.project, pk=worker_id, kind__in=proposals.list_asking_kinds())
    form = RulesForm(request.POST, worker=worker)
    if form.is_valid():
        try:
            change_worker(worker=worker, by=scene.user, supervision=form.rules)
        except TentalisError as error:
            show_error(form, error)
        else:
            messages.success(request, _("The rules of %(worker)s are set.") % {"worker": worker.name})
            return leave(scene, "proposal-rules")
    return show_rules(request, scene, (worker, form))


def show_rules(request: HttpRequest, scene: Scene, wrong: tuple[Worker, RulesForm] | None) -> HttpResponse:
    places = [
        {
            "worker": worker,
            "said": proposals.say_rules(worker),
            "form": wrong[1] if wrong and wrong[0].pk == worker.pk else RulesForm(worker=worker),
            "is_open": bool(wrong and wrong[0].pk == worker.pk),
        }
        for worker in proposals.find_asking_workers(scene.project)
    ]
    context = {"places": places, "tab": "rules"}
    return show(request, scene, "proposal_rules", context, status=400 if wrong else 200)


def show_card(
    request: HttpRequest, scene: Scene, row: Proposal, sent: DecisionForm | None = None, *, status: int = 200
) -> HttpResponse:
    context = {"card": make_card(proposals.show_proposal(row), scene, sent), "fragments": {"proposal"}}
    return show(request, scene, "proposal", context, status=status)


def make_card(view: ProposalView, scene: Scene, sent: DecisionForm | None = None) -> dict[str, Any]:
    """A proposal with its forms; the one that was sent wrongly stands open with what was typed."""
    row = view.row
    is_others = row.state == Proposal.State.PENDING and row.proposed_by_id != scene.user.pk
    is_open = is_others and scene.may(Right.REVIEWS_WRITE)
    made = {word: form(proposal=row) for word, form in FORMS.items()} if is_open else {}
    if sent is not None and is_open:
        made[sent.decision] = sent
    return {
        "view": view,
        "row": row,
        "forms": made,
        "sent": sent.decision if sent is not None else "",
        "is_own": row.proposed_by_id == scene.user.pk,
    }


def _back(scene: Scene) -> HttpResponse:
    """To the queue; the mark lets the page's script go on with its first card."""
    return redirect(reverse("console:proposal-list", args=(scene.project.slug,)) + "#queue")


def _proposal_or_404(scene: Scene, proposal_id: int) -> Proposal:
    return found_or_404(proposals.find_proposal(scene.project, proposal_id), f"no proposal {proposal_id}")
