"""Nobody is made a member unasked, and an agent stays with who has it."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts import invitations, services
from apps.accounts.models import Invitation, Member, Project, Role, User
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, NotAllowedError, NotFoundError
from tests.factories import make_project, make_user


@pytest.fixture
def olga(project: Project) -> User:
    """Owns the project."""
    olga = make_user("olga")
    Member.objects.create(project=project, user=olga, role=Role.OWNER)
    return olga


def test_an_owner_makes_no_person_a_member(project: Project, olga: User, charlie: User) -> None:
    with pytest.raises(NotAllowedError, match="invitation"):
        services.add_member(project=project, user=charlie, role="viewer", by=olga)
    assert not Member.objects.filter(user=charlie).exists()


def test_who_is_invited_becomes_a_member_by_accepting_once(project: Project, olga: User, charlie: User) -> None:
    offered, code = invitations.invite(project=project, username="charlie", role="reviewer", by=olga)
    assert code not in str(Invitation.objects.values())
    assert invitations.find_by_code(code, charlie) == offered
    assert invitations.accept(invitation=offered, by=charlie).role == "reviewer"
    with pytest.raises(ConflictError):
        invitations.accept(invitation=offered, by=charlie)
    with pytest.raises(NotFoundError):
        invitations.find_by_code(code, charlie)
    kinds = AuditEntry.objects.order_by("id").values_list("kind", flat=True)
    assert list(kinds) == ["invitation.made", "invitation.accepted", "member.added"]


def test_nobody_accepts_for_another_nor_after_the_time(project: Project, olga: User, bob: User, charlie: User) -> None:
    offered, code = invitations.invite(project=project, username="charlie", role="viewer", by=olga)
    with pytest.raises(ConflictError, match="only who is invited"):
        invitations.accept(invitation=offered, by=olga)
    with pytest.raises(NotFoundError):
        invitations.find_by_code(code, bob)
    Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    offered.refresh_from_db()
    with pytest.raises(ConflictError, match="ended"):
        invitations.accept(invitation=offered, by=charlie)


def test_only_owners_invite_and_nobody_invites_an_agent(project: Project, olga: User, alice: User) -> None:
    with pytest.raises(NotAllowedError):
        invitations.invite(project=project, username="charlie", role="viewer", by=alice)
    with pytest.raises(BadInputError):
        invitations.invite(project=project, username="claw", role="agent", by=olga)


def test_adding_an_agent_tells_nobody_which_names_there_are_and_takes_none_of_them(
    project: Project, olga: User
) -> None:
    theirs = make_project("lab")
    claw = make_user("claw", is_agent=True)
    Member.objects.create(project=theirs, user=claw, role=Role.AGENT)
    make_user("forgotten", is_agent=True)
    make_user("somebody")
    make_user("gone", is_agent=True, is_active=False)
    services.add_agent(project=project, username="first", by=olga)
    costs = []
    for name in ("free", "claw", "forgotten", "somebody", "gone"):
        with CaptureQueriesContext(connection) as asked:
            added = services.add_agent(project=project, username=name, by=olga)
        assert added.user.username == f"{name}@shop"
        costs.append(len(asked))
    assert len(set(costs)) == 1, "the same work, whosever the name is"
    with pytest.raises(ConflictError, match="claw@shop is a member"):
        services.add_agent(project=project, username="claw@shop", by=olga)


def test_an_agent_of_ones_own_other_project_is_the_same_agent_here(project: Project, olga: User) -> None:
    theirs = make_project("lab")
    claw = make_user("claw", is_agent=True)
    Member.objects.create(project=theirs, user=claw, role=Role.AGENT)
    Member.objects.create(project=theirs, user=olga, role=Role.OWNER)
    assert services.add_agent(project=project, username="claw", by=olga).user == claw
    services.remove_member(member=Member.objects.get(project=project, user=claw), by=olga)
    own = services.add_agent(project=project, username="own", by=olga)
    services.remove_member(member=own, by=olga)
    assert services.add_agent(project=project, username="own@shop", by=olga).user == own.user


def test_an_admin_names_an_agent_as_they_like(project: Project) -> None:
    admin = make_user("root", is_superuser=True)
    assert services.add_agent(project=project, username="claw", by=admin).user.username == "claw"
    make_user("somebody")
    with pytest.raises(ConflictError, match="somebody cannot be the name of an agent here"):
        services.add_agent(project=project, username="somebody", by=admin)


def test_inviting_costs_the_same_whether_or_not_anybody_has_the_name(
    project: Project, olga: User, charlie: User
) -> None:
    costs = []
    for name in (charlie.username, "nobody-has-it"):
        with CaptureQueriesContext(connection) as asked:
            invitations.invite(project=project, username=name, role="viewer", by=olga)
        costs.append([query["sql"].split(" ")[0] for query in asked])
    assert costs[0] == costs[1]


def test_everybody_may_leave_but_the_last_owner(project: Project, olga: User, bob: User) -> None:
    invitations.leave(project=project, by=bob)
    assert not Member.objects.filter(user=bob).exists()
    with pytest.raises(ConflictError, match="last owner"):
        invitations.leave(project=project, by=olga)
