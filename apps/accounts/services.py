"""Projects and their members: made, changed and guarded."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.contrib.auth import authenticate
from django.contrib.auth.hashers import make_password
from django.contrib.auth.password_validation import password_changed, validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from apps.accounts.models import ApiToken, BrowserSession, Member, Project, Role, User
from apps.accounts.rights import ALL_RIGHTS, BEFORE_ANY_PROJECT, ROLE_RIGHTS, Right
from apps.accounts.rules import check_project_settings
from apps.accounts.second_factor import (
    SecondFactorMissingError,
    SecondFactorRequiredError,
    has_second_factor,
    lacks_required_factor,
    use_code,
)
from apps.accounts.tokens import create_token
from apps.accounts.tries import forgive_try, note_try
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.dependents import find_dependents
from apps.base.errors import BadInputError, ConflictError, NotAllowedError, NotFoundError, NotSignedInError

SIGN_IN_DAYS = 30
PROJECT_FIELDS = frozenset(
    {
        "name",
        "rubric",
        "constitution",
        "weight_profiles",
        "review_policy",
        "gate_policy",
        "recipe",
        "group_size",
        "batch_tasks",
        "held_out_percent",
        "learning_enabled",
        "limits",
        "session_policy",
        "training_policy",
    }
)


def find_leader(project: Project) -> User:
    """Who what nobody asked for is done for: the project's first owner, else its first manager."""
    members = project.members.filter(role__in=(Role.OWNER, Role.MANAGER)).select_related("user").order_by("id")
    return min(members, key=lambda member: member.role != Role.OWNER).user


def find_role(user: User, project: Project) -> Role | None:
    """The user's role in a project; None for who is no member. A superuser is an owner everywhere."""
    if not user.is_active:
        return None
    if user.is_superuser:
        return Role.OWNER
    found = Member.objects.filter(project=project, user=user).values_list("role", flat=True).first()
    return Role(found) if found else None


def find_rights(user: User, project: Project) -> frozenset[Right]:
    """What the user's role allows in a project; nothing for who is no member."""
    role = find_role(user, project)
    return ROLE_RIGHTS[role] if role else frozenset()


def require_admin(user: User) -> None:
    """Raises NotAllowedError for who is no admin of the installation."""
    if not (user.is_superuser and user.is_active):
        raise NotAllowedError(f"this takes an admin of the installation, and {user.username} is none")


def require_role(user: User, project: Project, *roles: Role | str) -> Role:
    """The user's role, where it is one of these.

    Raises:
        NotFoundError: no member, who may not learn that the project exists.
        NotAllowedError: a member in another role.
    """
    role = find_role(user, project)
    if role is None:
        raise NotFoundError(f"no project {project.slug}")
    if role not in roles and not user.is_superuser:
        wanted = " or ".join(str(Role(name).value) for name in roles)
        raise NotAllowedError(f"this takes the role {wanted} in {project.slug}; {user.username} is {role.value}")
    return role


def require_right(user: User, project: Project, right: Right) -> None:
    """Raises NotFoundError for who is no member, NotAllowedError where the role lacks the right."""
    role = find_role(user, project)
    if role is None:
        raise NotFoundError(f"no project {project.slug}")
    if right not in ROLE_RIGHTS[role]:
        raise NotAllowedError(f"{right.value} is not among the rights of a {role.value} in {project.slug}")


def create_user(
    *,
    username: str,
    by: str,
    password: str | None = None,
    is_agent: bool = False,
    is_superuser: bool = False,
    email: str = "",
) -> User:
    """Make a person (with a password) or an agent (never one).

    Raises:
        BadInputError: the name cannot be one.
        ConflictError: it is taken.
    """
    user = User(
        username=username,
        email=email,
        is_agent=is_agent,
        is_superuser=is_superuser,
        is_staff=is_superuser and not is_agent,
    )
    if is_agent or password is None:
        user.set_unusable_password()
    else:
        user.set_password(password)
    try:
        user.full_clean(validate_unique=False)
    except ValidationError as error:
        raise BadInputError("this cannot be a user", errors=error.message_dict) from None
    with transaction.atomic():
        try:
            with transaction.atomic():
                user.save()
        except IntegrityError:
            raise ConflictError(f"the user name {username} is taken") from None
        record(Kind.USER_CREATED, subject=user, by=by, payload={"username": username, "is_agent": is_agent})
    return user


def sign_in(
    *, username: str, password: str, name: str, scopes: Iterable[str] | None = None, code: str = "", address: str = ""
) -> tuple[ApiToken, str]:
    """A token for a name and password; both outcomes are audited.

    Args:
        scopes: default: those that the person's roles have.
        code: of their app, or a recovery code, where they have a second factor.

    Raises:
        TooManySignInsError, TooManyCodesError, HashingBusyError: not now.
        NotSignedInError: they do not belong together, or the user is an agent or switched off.
        SecondFactorRequiredError: they do, and a code is wanted too.
        SecondFactorMissingError: they do, and this installation wants a second factor, which they do not have.
    """
    note_try(username=username)
    user = authenticate(username=username, password=password)
    if not isinstance(user, User) or user.is_agent:
        record(Kind.SIGN_IN_FAILED, by="nobody", payload={"username": username})
        raise NotSignedInError("name and password do not belong together")
    forgive_try(username=username)
    if has_second_factor(user):
        if not code:
            raise SecondFactorRequiredError.at("code", "wanted a code of your app, or a recovery code, too")
        use_code(user=user, code=code, address=address)
    elif lacks_required_factor(user):
        raise SecondFactorMissingError("you must have a second factor here: sign in to the console and set it up")
    with transaction.atomic():
        wanted = find_needed_scopes(user) if scopes is None else scopes
        token, text = create_token(user=user, name=name, scopes=wanted, expires_in_days=SIGN_IN_DAYS, by=user)
        token.confirmed_at = timezone.now()
        token.save(update_fields=["confirmed_at"])
        record(Kind.USER_SIGNED_IN, subject=user, by=user.handle, payload={"key_id": token.key_id})
    return token, text


def find_needed_scopes(user: User) -> frozenset[Right]:
    """What a person can use at all: what their roles have, and what everybody has before any role."""
    if user.is_superuser or may_make_projects(user):
        return ALL_RIGHTS
    roles = Member.objects.filter(user=user).values_list("role", flat=True).distinct()
    return BEFORE_ANY_PROJECT.union(*(ROLE_RIGHTS[Role(role)] for role in roles))


def may_make_projects(user: User) -> bool:
    """Admins of the installation, and people to whom it was granted."""
    return user.is_active and not user.is_agent and (user.is_superuser or user.may_make_projects)


def let_make_projects(*, user: User, may: bool, by: str) -> None:
    """Grant or take the right to make projects.

    Raises:
        BadInputError: an agent makes none.
    """
    if user.is_agent:
        raise BadInputError("an agent makes no projects")
    with transaction.atomic():
        if User.objects.filter(pk=user.pk, may_make_projects=not may).update(may_make_projects=may):
            record(Kind.USER_CHANGED, subject=user, by=by, payload={"may_make_projects": may})
    user.may_make_projects = may


def find_projects_with(user: User, right: Right) -> QuerySet[Project]:
    """Projects in which the user's role has a right."""
    if user.is_superuser and user.is_active:
        return Project.objects.all()
    roles = [role for role, rights in ROLE_RIGHTS.items() if right in rights]
    return Project.objects.visible_to(user).filter(members__user=user, members__role__in=roles)


def check_new_password(password: str, user: User, *, field: str) -> None:
    """Raises BadInputError, at `field`, for what cannot be this user's password."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise BadInputError(" ".join(error.messages), errors={field: error.messages}) from None


def change_password(*, user: User, current: str, new: str) -> None:
    """Give oneself another password. Every token of theirs ends with the old one, and every other session.

    Raises:
        NotSignedInError: `current` is not the password.
        BadInputError: `new` cannot be one.
    """
    if user.is_agent or not user.check_password(current):
        raise NotSignedInError.at("current", "this is not your password")
    check_new_password(new, user, field="new")
    user.password = replace_password(user, new, by=user.handle).password


def replace_password(user: User, password: str, *, by: str, then: Callable[[User], object] | None = None) -> User:
    """Write a password that was checked. Args: then: what ends with it, in its transaction. Returns: the row."""
    hashed = make_password(password)  # before anything is locked
    with transaction.atomic():
        row = User.objects.select_for_update().get(pk=user.pk)
        row.password = hashed
        row.save(update_fields=["password"])
        password_changed(password, row)
        if then is not None:
            then(row)
        record(Kind.PASSWORD_CHANGED, subject=row, by=by)
    return row


def end_session(*, session: BrowserSession, by: User) -> None:
    """Sign a browser out. Its pages and sockets end with the next thing they ask or hear.

    Raises:
        NotFoundError: it is somebody else's.
    """
    if session.user_id != by.pk:
        raise NotFoundError("no such session")
    with transaction.atomic():
        if BrowserSession.objects.filter(pk=session.pk).delete()[0]:
            record(Kind.USER_SIGNED_OUT, subject=by, by=by.handle, payload={"sessions": 1, "device": session.device})


def end_other_sessions(*, user: User, keep: str) -> int:
    """Sign out every browser but one. Args: keep: hash of the one's cookie. Returns: how many."""
    with transaction.atomic():
        ended = BrowserSession.objects.filter(user=user).exclude(pk=keep).delete()[0]
        if ended:
            record(Kind.USER_SIGNED_OUT, subject=user, by=user.handle, payload={"sessions": ended})
    return ended


def create_project(*, name: str, slug: str, by: User, **settings: Any) -> Project:
    """Make a project whose first owner is `by`.

    Args:
        settings: any of `PROJECT_FIELDS`.
    Raises:
        NotAllowedError: it was not granted to them.
        BadInputError: naming the field.
        ConflictError: the slug is taken.
    """
    if not may_make_projects(by):
        raise NotAllowedError("projects are made by admins of the installation, and by people to whom they granted it")
    project = Project(slug=slug)
    _set_fields(project, {"name": name, **settings})
    with transaction.atomic():
        try:
            with transaction.atomic():
                project.save()
        except IntegrityError:
            message = f"the slug {slug} is taken"
            raise ConflictError(message, errors={"slug": [message]}) from None
        record(Kind.PROJECT_CREATED, subject=project, by=by.handle, payload={"slug": slug, "name": name})
        save_member(Member(project=project, user=by, role=Role.OWNER), by=by)
    return project


def change_project(*, project: Project, by: User, **changes: Any) -> Project:
    """Change some of `PROJECT_FIELDS`.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the field.
    """
    require_right(by, project, Right.PROJECTS_WRITE)
    check_project_settings(changes)  # a calendar takes a while, and here no row is locked yet
    with transaction.atomic():
        row = Project.objects.select_for_update().get(pk=project.pk)
        before = {name: getattr(row, name) for name in changes if name in PROJECT_FIELDS}
        _set_fields(row, changes)
        changed = {name: value for name, value in before.items() if getattr(row, name) != value}
        if changed:
            row.save(update_fields=sorted(changed))
            payload = {"before": changed, "after": {name: getattr(row, name) for name in changed}}
            record(Kind.PROJECT_CHANGED, subject=row, by=by.handle, payload=payload)
    return row


def delete_project(*, project: Project, by: User) -> None:
    """Delete a project that holds no work.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        ConflictError: work stands in it, which is evidence and stays.
    """
    require_right(by, project, Right.PROJECTS_WRITE)
    with transaction.atomic():
        row = Project.objects.select_for_update().get(pk=project.pk)
        if kept := find_dependents(row, unless="GOES_WITH_PROJECT"):
            raise ConflictError(f"project {row.slug} still holds {', '.join(kept)}; it can only be deleted empty")
        record(Kind.PROJECT_DELETED, subject=row, by=by.handle, payload={"slug": row.slug})
        row.delete()


def add_member(*, project: Project, user: User, role: Role | str, by: User) -> Member:
    """Make a user a member at once: oneself, or an agent. People are invited (`apps.accounts.invitations`).

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: an agent takes the role agent, a person any other.
        ConflictError: a member already.
    """
    require_right(by, project, Right.MEMBERS_WRITE)
    wanted = _check_role(user, role)
    if not user.is_agent and user.pk != by.pk:
        raise NotAllowedError("a person becomes a member by accepting an invitation")
    member = Member(project=project, user=user, role=wanted)
    with transaction.atomic():
        save_member(member, by=by)
    return member


def add_agent(*, project: Project, username: str, by: User) -> Member:
    """Make a new agent, or one of a project whose members `by` names, an agent of this project too.

    A new agent's name holds its project's (`claw@shop`), so that whose names there are elsewhere is neither told nor
    taken; an admin of the installation gives the name as it is.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: the name cannot be one.
        ConflictError: a member already, or no agent's name.
    """
    require_right(by, project, Right.MEMBERS_WRITE)
    named = Member.objects.filter(project__in=find_projects_with(by, Right.MEMBERS_WRITE)).values("user")
    with transaction.atomic():
        user = User.objects.filter(username=username, is_agent=True, pk__in=named).first()
        if user is None:
            name = username if by.is_superuser else name_within(project, username)
            user = User.objects.filter(username=name).first()
            user = user or create_user(username=name, is_agent=True, by=by.handle)
        if not user.is_agent or not user.is_active:
            message = f"{user.username} cannot be the name of an agent here; choose another"
            raise ConflictError(message, errors={"username": [message]})
        return add_member(project=project, user=user, role=Role.AGENT, by=by)


def name_within(project: Project, username: str) -> str:
    """The name of a project's own agent: `claw@shop`."""
    suffix = f"@{project.slug}"
    return f"{username.removesuffix(suffix)}{suffix}"


def change_member(*, member: Member, role: Role | str, by: User) -> Member:
    """Change a member's role.

    Raises:
        NotAllowedError, NotFoundError, BadInputError: as `add_member`.
        ConflictError: the project would be left without an owner.
    """
    require_right(by, member.project, Right.MEMBERS_WRITE)
    wanted = _check_role(member.user, role)
    with transaction.atomic():
        row = _lock_member(member)
        before = row.role
        if wanted != Role.OWNER:
            _require_another_owner(row)
        if before != wanted:
            row.role = wanted
            row.save(update_fields=["role"])
            payload = {"user": row.user.username, "before": before, "after": wanted.value}
            record(Kind.MEMBER_CHANGED, subject=row, by=by.handle, payload=payload)
    return row


def remove_member(*, member: Member, by: User) -> None:
    """Take a member out. A member may leave by themselves.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        ConflictError: the project would be left without an owner.
    """
    if member.user_id != by.pk:
        require_right(by, member.project, Right.MEMBERS_WRITE)
    with transaction.atomic():
        row = _lock_member(member)
        _require_another_owner(row)
        payload = {"user": row.user.username, "role": row.role}
        record(Kind.MEMBER_REMOVED, subject=row, by=by.handle, payload=payload)
        row.delete()


def _set_fields(project: Project, values: Mapping[str, Any]) -> None:
    if unknown := sorted(set(values) - PROJECT_FIELDS):
        raise BadInputError(
            f"a project has no field {', '.join(unknown)}; it has {', '.join(sorted(PROJECT_FIELDS))}",
            errors={name: ["No such field."] for name in unknown},
        )
    check_project_settings(values)
    for name, value in values.items():
        setattr(project, name, value)
    try:
        project.clean_fields()
    except ValidationError as error:
        raise BadInputError("this cannot be a project", errors=error.message_dict) from None


def read_role(role: Role | str) -> Role:
    """Raises BadInputError for what is none."""
    if role not in Role.values:
        raise BadInputError.at("role", f"wanted one of {', '.join(Role.values)}, found {role!r}")
    return Role(role)


def _check_role(user: User, role: Role | str) -> Role:
    read_role(role)
    if user.is_agent != (role == Role.AGENT):
        message = "an agent takes the role agent, a person any other"
        raise BadInputError(f"role: {message}; {user.username} cannot be {role}", errors={"role": [message]})
    return Role(role)


def save_member(member: Member, *, by: User) -> None:
    try:
        with transaction.atomic():
            member.save(force_insert=True)
    except IntegrityError:
        message = f"{member.user.username} is a member of {member.project.slug} already"
        raise ConflictError(message, errors={"username": [message]}) from None
    payload = {"user": member.user.username, "role": str(member.role)}
    record(Kind.MEMBER_ADDED, subject=member, by=by.handle, payload=payload)


def _lock_member(member: Member) -> Member:
    """The row, with its project locked, so that two last owners cannot leave at once."""
    Project.objects.select_for_update().get(pk=member.project_id)
    row = Member.objects.select_related("user", "project").filter(pk=member.pk).first()
    if row is None:
        raise NotFoundError(f"no member {member.pk}")
    return row


def _require_another_owner(member: Member) -> None:
    others = Member.objects.filter(project=member.project, role=Role.OWNER).exclude(pk=member.pk)
    if member.role == Role.OWNER and not others.exists():
        raise ConflictError(f"{member.user.username} is the last owner of {member.project.slug}; name another first")
