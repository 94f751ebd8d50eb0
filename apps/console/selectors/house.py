"""Who is in a project, what roles may do, and whose tokens are whose."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from django.db.models import Q, QuerySet
from django.utils import timezone

from apps.accounts.models import ApiToken, Invitation, Member, Project, Role, User
from apps.accounts.rights import ROLE_RIGHTS, Right
from apps.accounts.services import find_rights
from apps.feedback.models import Review
from apps.tasks.models import Task
from apps.training.models import TrainingRun

MOST = 500
SHOWN_INVITATIONS = 100


@dataclass(frozen=True)
class RightRow:
    """One line of "what each role may do": a resource, to see or to change, and for each role whether it may."""

    resource: str
    is_write: bool
    allowed: Sequence[tuple[str, bool]]


@dataclass(frozen=True)
class OpenWork:
    """What of a project is under way: tasks that are not over, reviews that wait for anybody, runs not yet sent."""

    tasks: int
    reviews: int
    runs: int


def count_open_work(project: Project) -> OpenWork:
    states = (Task.State.QUEUED, Task.State.WORKING, Task.State.SCORING)
    return OpenWork(
        tasks=Task.objects.filter(project=project, state__in=states).count(),
        reviews=Review.objects.filter(project=project, state=Review.State.OPEN).count(),
        runs=TrainingRun.objects.filter(project=project, state=TrainingRun.State.QUEUED).count(),
    )


def find_members(project: Project) -> list[Member]:
    """By role, owners first, then by name."""
    rank = {role.value: place for place, role in enumerate(Role)}
    members = Member.objects.filter(project=project).select_related("user").order_by("user__username")[:MOST]
    return sorted(members, key=lambda member: rank[member.role])


def describe_roles() -> list[RightRow]:
    """The table of rights as it is enforced, in its own order."""
    return [
        RightRow(
            resource=right.value.partition(":")[0],
            is_write=right.value.endswith(":write"),
            allowed=[(str(role.label), right in ROLE_RIGHTS[role]) for role in Role],
        )
        for right in Right
    ]


def find_open_invitations(project: Project) -> list[Invitation]:
    """Those that hold and nobody answered, the newest first."""
    open_ones = Invitation.objects.filter(project=project, state=Invitation.State.OPEN, expires_at__gt=timezone.now())
    return list(open_ones[:SHOWN_INVITATIONS])


def find_tokens(project: Project, user: User) -> QuerySet[ApiToken]:
    """One's own that work in this project, and for who keeps its members those of its agents."""
    seen = Q(user=user) & (Q(project=project) | Q(project__isnull=True))
    if Right.MEMBERS_WRITE in find_rights(user, project):
        seen |= Q(project=project, user__is_agent=True)
    return ApiToken.objects.filter(seen).select_related("user", "project").order_by("-id")


def find_holders(project: Project, user: User) -> list[User]:
    """For whom this user can make a token here: themselves, and the project's agents for who keeps its members."""
    if Right.MEMBERS_WRITE not in find_rights(user, project):
        return [user]
    agents = User.objects.filter(is_agent=True, is_active=True, memberships__project=project)
    return [user, *agents.order_by("username")[:MOST]]


def group_scopes() -> list[tuple[str, list[tuple[str, str]]]]:
    """Rights by resource, each as (value, verb)."""
    words = [(right.value.partition(":")[0], right.value, right.value.partition(":")[2]) for right in Right]
    return [
        (resource, [(value, verb) for _, value, verb in rows]) for resource, rows in groupby(words, lambda row: row[0])
    ]
