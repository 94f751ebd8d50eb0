"""An outside agent under supervision, and what it asks."""

from datetime import timedelta
from typing import Any

from django.db.models.functions import Now

from apps.accounts.models import Member, Project, Role, User
from apps.supervision.models import Proposal
from apps.supervision.services import propose
from apps.tasks.models import Task
from apps.workers.models import Worker
from tests.factories import make_task, make_user, make_worker

REFUND = {"kind": "tool", "tool": "refund", "arguments": {"order": 17, "amount": 84.5, "notify": True}}
RULES: dict[str, Any] = {"tools": ["refund", "mail.*"], "messages": True, "answers": True, "deadline_s": 300}


def make_agent(project: Project, name: str = "claw") -> User:
    agent = make_user(name, is_agent=True)
    Member.objects.get_or_create(project=project, user=agent, defaults={"role": Role.AGENT})
    return agent


def make_supervised_task(project: Project, rules: dict[str, Any] | None = None, **values: Any) -> Task:
    """A task that waits for its outside agent."""
    worker = Worker.objects.filter(project=project, name="claw").first() or make_worker(
        project, "claw", Worker.Kind.OUTSIDE, supervision=RULES if rules is None else rules
    )
    return make_task(project, worker, **{"group_size": 1} | values)


def make_proposal(project: Project, task: Task | None = None, **values: Any) -> Proposal:
    """One that waits."""
    task = task or make_supervised_task(project)
    proposal = propose(task=task, by=make_agent(project), **{"action": REFUND} | values)
    assert proposal.state == Proposal.State.PENDING
    return proposal


def let_time_pass(proposal: Proposal) -> None:
    """Its deadline was a second ago."""
    Proposal.objects.filter(pk=proposal.pk).update(deadline_at=Now() - timedelta(seconds=1))
