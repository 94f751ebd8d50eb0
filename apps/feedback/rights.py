"""Who may review."""

from apps.accounts.models import Member, Project, Role, User

REVIEWERS = (Role.OWNER, Role.MANAGER, Role.REVIEWER)
MANAGERS = (Role.OWNER, Role.MANAGER)
"""Who also assigns, judges in bulk, takes back others' words, and is given what takes an expert."""


def find_managed(user: User) -> frozenset[int] | None:
    """The projects whose tasks' references a user may read; None: every one.

    Who leads the project knows what is right. Whoever answers a task or judges one, blindly too, is not told it: an
    agent would repeat it, and a second judgement would be the first one's.
    """
    if user.is_superuser:
        return None
    return frozenset(Member.objects.filter(user=user, role__in=MANAGERS).values_list("project", flat=True))


def may_read_reference(user: User, project: Project) -> bool:
    """Whether a project's references are told to a user."""
    managed = find_managed(user)
    return managed is None or project.pk in managed
