"""Becoming a member: somebody is invited by name, and is in when they say so. And leaving again."""

import secrets
from datetime import timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.crypto import salted_hmac

from apps.accounts.models import Invitation, Member, Project, Role, User
from apps.accounts.people import create_person
from apps.accounts.rights import Right
from apps.accounts.services import (
    check_new_password,
    find_projects_with,
    read_role,
    remove_member,
    require_right,
    save_member,
)
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.errors import BadInputError, ConflictError, NotFoundError

HOLDS = timedelta(days=14)
CODE_BYTES = 24


def hash_code(code: str) -> str:
    """Under a key drawn from SECRET_KEY, so that a copy of the database lets nobody in."""
    return salted_hmac("apps.accounts.invitations", code, algorithm="sha256").hexdigest()


def invite(*, project: Project, username: str, role: Role | str, by: User) -> tuple[Invitation, str]:
    """Offer a person a role. Who has an open offer here gets this one in its place.

    The answer is the same whether or not anybody has that name.

    Returns:
        The invitation, and the code of its link, which is in this return value and nowhere else.
    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: agents are not invited.
        ConflictError: they are a member already.
    """
    require_right(by, project, Right.MEMBERS_WRITE)
    wanted = read_role(role)
    if wanted == Role.AGENT:
        raise BadInputError.at("role", "an agent is added and not invited; a person takes any other role")
    code = secrets.token_urlsafe(CODE_BYTES)
    with transaction.atomic():
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        if Member.objects.filter(project=project, user__username=username).exists():
            message = f"{username} is a member of {project.slug} already"
            raise ConflictError(message, errors={"username": [message]})
        for earlier in Invitation.objects.filter(project=project, username=username, state=Invitation.State.OPEN):
            move(earlier, Invitation.State.WITHDRAWN, by=by.handle)
        invitation = Invitation.objects.create(
            project=project,
            username=username,
            role=wanted,
            code_hash=hash_code(code),
            invited_by=by,
            expires_at=timezone.now() + HOLDS,
        )
        payload = {"user": username, "role": wanted.value}
        record(Kind.INVITATION_MADE, subject=invitation, by=by.handle, payload=payload)
    return invitation, code


def list_invitations(user: User) -> QuerySet[Invitation]:
    """What this person was offered and has not answered."""
    rows = Invitation.objects.select_related("project", "invited_by")
    if user.is_agent:
        return rows.none()
    return rows.filter(username=user.username, state=Invitation.State.OPEN, expires_at__gt=timezone.now())


def list_visible(user: User) -> QuerySet[Invitation]:
    """Their own, and those of projects whose members they name."""
    named = Invitation.objects.filter(project__in=find_projects_with(user, Right.MEMBERS_WRITE))
    return Invitation.objects.select_related("project", "invited_by").filter(
        Q(pk__in=named.values("pk")) | Q(pk__in=list_invitations(user).values("pk"))
    )


def find_by_code(code: str, user: User) -> Invitation:
    """The open invitation of this link. Raises NotFoundError for everybody but who is invited."""
    found = list_invitations(user).filter(code_hash=hash_code(code)).first()
    if found is None:
        raise NotFoundError("no such invitation, or it is not yours, or it was answered or withdrawn")
    return found


def find_for_newcomer(code: str) -> Invitation | None:
    """The open invitation of this link, where who holds it may make the account that it is for: an admin of the
    installation invited, and nobody has the name yet."""
    rows = Invitation.objects.select_related("project", "invited_by")
    found = rows.filter(
        code_hash=hash_code(code),
        state=Invitation.State.OPEN,
        expires_at__gt=timezone.now(),
        invited_by__is_superuser=True,
        invited_by__is_active=True,
    ).first()
    return None if found is None or User.objects.filter(username=found.username).exists() else found


def join(*, code: str, password: str) -> User:
    """Make the account that an admin's invitation is for, and accept it.

    Raises:
        NotFoundError: there is no such invitation, or somebody has the name by now.
        BadInputError: it cannot be a password, or the name no name.
    """
    invitation = find_for_newcomer(code)
    if invitation is None or invitation.invited_by is None:
        raise NotFoundError("no such invitation, or it was answered or withdrawn, or there is such an account: sign in")
    check_new_password(password, User(username=invitation.username), field="new")
    made = create_person(username=invitation.username, by=invitation.invited_by, password=password)
    accept(invitation=invitation, by=made.user)
    return made.user


def accept(*, invitation: Invitation, by: User) -> Member:
    """Become a member.

    Raises:
        ConflictError: it is not theirs, does not hold any more or was answered, or they are a member already.
    """
    _require_own(invitation, by)
    with transaction.atomic():
        Project.objects.select_for_update(no_key=True).get(pk=invitation.project_id)
        move(invitation, Invitation.State.ACCEPTED, by=by.handle)
        member = Member(project=invitation.project, user=by, role=invitation.role)
        save_member(member, by=by)
    return member


def decline(*, invitation: Invitation, by: User) -> None:
    """Say no. Raises ConflictError: as `accept`."""
    _require_own(invitation, by)
    move(invitation, Invitation.State.DECLINED, by=by.handle)


def withdraw(*, invitation: Invitation, by: User) -> None:
    """Take an offer back. Raises NotAllowedError, NotFoundError, IllegalMoveError: it was answered."""
    require_right(by, invitation.project, Right.MEMBERS_WRITE)
    move(invitation, Invitation.State.WITHDRAWN, by=by.handle)


def leave(*, project: Project, by: User) -> None:
    """Be a member no more.

    Raises:
        ConflictError: they are none, or the project would be left without an owner.
    """
    member = Member.objects.select_related("user", "project").filter(project=project, user=by).first()
    if member is None:
        raise ConflictError(f"{by.username} is no member of {project.slug}")
    remove_member(member=member, by=by)


def _require_own(invitation: Invitation, by: User) -> None:
    if by.is_agent or invitation.username != by.username:
        raise ConflictError("only who is invited answers an invitation")
    if invitation.expires_at <= timezone.now():
        raise ConflictError(f"this invitation ended at {invitation.expires_at:%Y-%m-%d %H:%M} UTC: ask for another")
