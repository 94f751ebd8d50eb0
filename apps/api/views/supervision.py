"""Proposals: agents ask before they act, and wait for the word."""

from typing import Any, ClassVar

from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rights import Right
from apps.api.filters import filter_by
from apps.api.lookup import find_row
from apps.api.permissions import by_right, current_user, require_scope
from apps.api.serializers.supervision import DecisionIn, ProposalIn, ProposalOut
from apps.api.views.base import ResourceViewSet, command
from apps.api.waiting import MAX_WAIT_S, answer_in_time, hold_back, read_wait
from apps.supervision import services as supervision
from apps.supervision.models import Proposal
from apps.supervision.waiting import current_board
from apps.tasks.models import Task

WAIT_HELP = f"Seconds to wait for a decision, 0 to {MAX_WAIT_S}; the answer comes as soon as there is one."
REFUND = {"kind": "tool", "tool": "refund", "arguments": {"order": 4131, "amount": 84.5}}
PROPOSED = {
    "task": 7,
    "step_index": 2,
    "action": REFUND,
    "context": "The customer was charged twice for the blue lamp.",
    "risk": "The money cannot be taken back.",
}
ASKING = [OpenApiExample("A refund", PROPOSED, request_only=True)]
DECIDING = [
    OpenApiExample("Approve", {"decision": "approve"}, request_only=True),
    OpenApiExample("Reject", {"decision": "reject", "reason": "The order was never paid."}, request_only=True),
    OpenApiExample(
        "Allow less",
        {"decision": "edit", "action": REFUND | {"arguments": {"order": 4131, "amount": 42.25}}},
        request_only=True,
    ),
    OpenApiExample("Send back", {"decision": "hint", "hint": "Only one charge was wrong."}, request_only=True),
    OpenApiExample("Take over", {"decision": "take_over", "answer": "I called the customer."}, request_only=True),
]


class ProposalViewSet(ResourceViewSet):
    """What agents want to do, oldest first. An agent sees its own, and what agents may decide."""

    queryset = Proposal.objects.select_related("project", "task__worker", "proposed_by")
    serializer_class = ProposalOut
    filterset_class = filter_by(
        Proposal, "state", "kind", "task", worker=filters.CharFilter(field_name="task__worker__name")
    )
    oldest_first = True
    extra_parameters = ("wait",)
    rights: ClassVar = by_right(
        {Right.ATTEMPTS_READ: "list retrieve", Right.ATTEMPTS_WRITE: "create", Right.FEEDBACK_WRITE: "decide"}
    )

    @classmethod
    def as_view(cls, actions: Any = None, **initkwargs: Any) -> Any:
        view = super().as_view(actions, **initkwargs)
        return answer_in_time(view, current_board) if (actions or {}).get("get") == "retrieve" else view

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        user = self.request.user
        if not getattr(user, "is_agent", False):
            return rows
        return rows.filter(Q(proposed_by=user) | Q(task__worker__supervision__agents_decide=True))

    @extend_schema(parameters=[OpenApiParameter("wait", int, description=WAIT_HELP)])
    def retrieve(self, request: Request, pk: str) -> Response:
        """A proposal; `wait` holds the answer back until it is decided."""
        wait_s = read_wait(request.query_params.get("wait"))
        proposal = self.get_object()
        response = self.show(proposal)
        return hold_back(response, proposal.pk, wait_s) if proposal.state == Proposal.State.PENDING else response

    @extend_schema(request=ProposalIn, responses={201: ProposalOut}, examples=ASKING)
    def create(self, request: Request) -> Response:
        """Ask whether an action may be done. Where no rule asks for a person, `outcome` is `go_on` at once."""
        body = self.read_body(ProposalIn)
        tasks = Task.objects.select_related("project", "worker")
        task = find_row(request, tasks, body.pop("task"), field="task", right=Right.ATTEMPTS_WRITE)
        proposal = supervision.propose(task=task, by=current_user(request), **body)
        response = self.show(proposal, 201)
        response["Location"] = f"/api/v1/proposals/{proposal.pk}"
        return response

    @command(request=DecisionIn, examples=DECIDING)
    def decide(self, request: Request, pk: str) -> Response:
        """Say what becomes of a proposal: people who review, and other agents where its worker's rules say
        `agents_decide`. The first word counts; 409 says whose it was."""
        proposal, by = self.get_object(), current_user(request)
        if not by.is_agent:
            require_scope(request, Right.REVIEWS_WRITE)
        body = self.read_body(DecisionIn)
        return self.show(supervision.decide(proposal=proposal, by=by, **body))
