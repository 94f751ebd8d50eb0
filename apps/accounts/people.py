"""The accounts of an installation's people: made, given another password, switched off and on by its admins."""

import secrets
from functools import partial
from typing import NamedTuple

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.second_factor import end_sign_ins
from apps.accounts.services import check_new_password, create_user, replace_password
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError, NotAllowedError

PASSWORD_BYTES = 12


class Made(NamedTuple):
    """An account with the password it has from now on, which is in this value and nowhere else."""

    user: User
    password: str


def require_admin(by: User) -> None:
    """Raises NotAllowedError for all but admins of the installation."""
    if not (by.is_superuser and by.is_active):
        raise NotAllowedError("accounts are made and changed by admins of the installation")


def create_person(*, username: str, by: User, password: str = "", email: str = "") -> Made:
    """Make an account. It is in no project before it accepts an invitation.

    Args:
        password: "": one is drawn.
    Raises:
        NotAllowedError: `by` is no admin.
        BadInputError: naming the field.
        ConflictError: the name is taken.
    """
    require_admin(by)
    chosen = _choose_password(password, User(username=username, email=email))
    return Made(create_user(username=username, password=chosen, email=email, by=by.handle), chosen)


def reset_password(*, user: User, by: User, password: str = "") -> Made:
    """Give somebody who lost theirs another password. All they are signed in with ends; a second factor stays.

    Raises:
        NotAllowedError: `by` is no admin.
        BadInputError: it cannot be a password, or an agent has none.
    """
    require_admin(by)
    if user.is_agent:
        raise BadInputError(f"{user.username} is an agent: it has tokens and never a password")
    chosen = _choose_password(password, user)
    row = replace_password(user, chosen, by=by.handle, then=partial(end_sign_ins, by=by.handle))
    return Made(row, chosen)


def set_active(*, user: User, is_active: bool, by: User) -> User:
    """Switch an account off or on. Off, nobody signs in with it and its tokens open nothing; its work stays.

    Raises:
        NotAllowedError: `by` is no admin.
        ConflictError: it is their own.
    """
    require_admin(by)
    if user.pk == by.pk:
        raise ConflictError("nobody switches off their own account: ask another admin")
    with transaction.atomic():
        row = User.objects.select_for_update().get(pk=user.pk)
        if row.is_active != is_active:
            row.is_active = is_active
            row.save(update_fields=["is_active"])
            if not is_active:
                end_sign_ins(row, by=by.handle)
            record(Kind.USER_CHANGED, subject=row, by=by.handle, payload={"is_active": is_active})
    return row


def _choose_password(given: str, user: User) -> str:
    if not given:
        return secrets.token_urlsafe(PASSWORD_BYTES)
    check_new_password(given, user, field="password")
    return given
