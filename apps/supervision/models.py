"""What a running worker asked to do, and what was said to it."""

from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.accounts.models import Project, User
from apps.audit.kinds import Kind
from apps.base.models import Stateful
from apps.tasks.models import Attempt, Task

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser


class ProposalQuerySet(models.QuerySet["Proposal"]):
    def visible_to(self, user: "User | AnonymousUser") -> "ProposalQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))

    def pending(self) -> "ProposalQuerySet":
        """Undecided, the most urgent first."""
        return self.filter(state=Proposal.State.PENDING).order_by("deadline_at", "id")

    def decided(self) -> "ProposalQuerySet":
        """Decided, the last one first. What a rule let through by itself is not among them."""
        return self.filter(decided_at__isnull=False).exclude(decided_by=POLICY).order_by("-decided_at", "-id")


POLICY = "policy"
"""Who decided where no rule asked for a person."""


class Proposal(Stateful):
    """One action that an agent wants to take at a task, which waits for somebody's word.

    Attributes:
        proposed_by: whose token it came with; None: the platform's own agent wants it.
        turn, call: of which turn of its attempt, and which call there, from 0; None of an outside agent's.
        step_index: which step of the work it will be, from 0; None: the agent did not say.
        action: {"kind": "tool", "tool", "arguments"}, {"kind": "message", "text"} or {"kind": "answer", "text"}.
        context: the end of what led there, as the agent tells it.
        risk: what could go wrong, as the agent tells it.
        reason: which rule asked for approval, and why the model that was asked first leaves it to others.
        on_timeout: what holds when nobody decides: approve, reject or fail, as the rule said when it was made.
        decided_by: handle, of a model `agent:llm:NAME`, of a program `agent:program:NAME`; `policy` where no rule
            asked, `sweep` when the time was up.
        decision: {"reason"}, {"action"}, {"hint"}, {"answer"} or {"outcome"}, by state; a model's {"model", "reason",
            "judge"}.
        attempt: the work it is part of; of an outside agent's once that was handed in.
    """

    class State(models.TextChoices):
        PENDING = "pending", "Waiting"
        APPROVED = "approved", "Approved"
        REJECTED = "rejected", "Rejected"
        EDITED = "edited", "Approved with changes"
        HINTED = "hinted", "Sent back with a hint"
        TAKEN_OVER = "taken_over", "Taken over"
        EXPIRED = "expired", "Expired"

    class Kinds(models.TextChoices):
        TOOL = "tool", "Tool call"
        MESSAGE = "message", "Message"
        ANSWER = "answer", "Answer"

    class OnTimeout(models.TextChoices):
        APPROVE = "approve", "It may be done"
        REJECT = "reject", "It may not be done"
        FAIL = "fail", "The task fails"

    _ENDS: ClassVar = frozenset(
        {State.APPROVED, State.REJECTED, State.EDITED, State.HINTED, State.TAKEN_OVER, State.EXPIRED}
    )
    MOVES: ClassVar = {State.PENDING: _ENDS} | dict.fromkeys(_ENDS, frozenset())
    EVENTS: ClassVar = {
        State.PENDING: Kind.PROPOSAL_MADE,
        State.APPROVED: Kind.PROPOSAL_APPROVED,
        State.REJECTED: Kind.PROPOSAL_REJECTED,
        State.EDITED: Kind.PROPOSAL_EDITED,
        State.HINTED: Kind.PROPOSAL_HINTED,
        State.TAKEN_OVER: Kind.PROPOSAL_TAKEN_OVER,
        State.EXPIRED: Kind.PROPOSAL_EXPIRED,
    }

    project = models.ForeignKey(Project, models.CASCADE, related_name="proposals", db_index=False)
    task = models.ForeignKey(Task, models.CASCADE, related_name="proposals")
    proposed_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, blank=True, related_name="+")
    turn = models.PositiveSmallIntegerField(null=True, blank=True)
    call = models.PositiveSmallIntegerField(null=True, blank=True)
    step_index = models.PositiveSmallIntegerField(null=True, blank=True)
    kind = models.CharField(max_length=8, choices=Kinds.choices)
    tool = models.CharField(max_length=100, blank=True)
    action = models.JSONField()
    context = models.TextField(blank=True)
    risk = models.CharField(max_length=1000, blank=True)
    reason = models.CharField(max_length=300, blank=True)
    state = models.CharField(max_length=16, choices=State.choices, default=State.PENDING)
    deadline_at = models.DateTimeField(null=True, blank=True)
    on_timeout = models.CharField(max_length=8, choices=OnTimeout.choices, default=OnTimeout.REJECT)
    decided_by = models.CharField(max_length=120, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)
    decision = models.JSONField(default=dict, blank=True)
    attempt = models.ForeignKey(Attempt, models.SET_NULL, null=True, blank=True, related_name="proposals")

    objects = ProposalQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state="pending", decided_at__isnull=True, deadline_at__isnull=False)
                | ~Q(state="pending") & Q(decided_at__isnull=False),
                name="proposal_is_decided_or_has_a_deadline",
            ),
            models.UniqueConstraint(
                fields=["attempt", "turn", "call"], condition=Q(turn__isnull=False), name="one_proposal_per_call"
            ),
        ]
        indexes = [
            models.Index(fields=["project", "-id"], name="proposal_by_project"),
            models.Index(
                fields=["project", "deadline_at", "id"], condition=Q(state="pending"), name="proposal_pending"
            ),
            models.Index(fields=["deadline_at"], condition=Q(state="pending"), name="proposal_due"),
            models.Index(
                fields=["project", "-decided_at", "-id"],
                condition=Q(decided_at__isnull=False) & ~Q(decided_by="policy"),
                name="proposal_decided",
            ),
        ]

    def __str__(self) -> str:
        return f"proposal {self.pk} at task {self.task_id}"

    @property
    def is_ours(self) -> bool:
        """Whether the platform's own agent wants it, whose attempt goes on with the word."""
        return self.turn is not None

    @property
    def is_by_person(self) -> bool:
        """Whether a person decided it: no agent, model, program, rule or clock."""
        return self.decided_by.startswith("user:")

    def describe(self) -> dict[str, Any]:
        """What the audit says of it; the action's own words stay in the row."""
        return {"task": self.task_id, "kind": str(self.kind), "tool": self.tool}

    @property
    def outcome(self) -> str:
        """What the agent is to do: wait, go on, stop, ask again, hand over or fail."""
        if self.state == self.State.EXPIRED:
            return {"approve": "go_on", "fail": "fail"}.get(self.decision.get("outcome", ""), "stop")
        return OUTCOMES[self.State(self.state)]

    @property
    def permitted(self) -> dict[str, Any] | None:
        """The action that may be done now; None for none."""
        if self.outcome != "go_on":
            return None
        action: dict[str, Any] = self.decision["action"] if self.state == self.State.EDITED else self.action
        return action


OUTCOMES = {
    Proposal.State.PENDING: "wait",
    Proposal.State.APPROVED: "go_on",
    Proposal.State.EDITED: "go_on",
    Proposal.State.REJECTED: "stop",
    Proposal.State.HINTED: "ask_again",
    Proposal.State.TAKEN_OVER: "hand_over",
}
