"""Proving anew who one is, before what is dangerous: the proof of signing in holds fifteen minutes for that.

A session and a token of signing in know when it was last proved. A token made for a program has nobody behind it who
could prove anything: making it was what took a proof, and it does what its scopes say.
"""

from datetime import datetime, timedelta

from django.utils import timezone

from apps.accounts.models import ApiToken, User
from apps.accounts.second_factor import has_second_factor, use_code
from apps.accounts.tries import forgive_try, note_try
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError, NotAllowedError, NotSignedInError

HOLDS = timedelta(minutes=15)


class ConfirmationRequiredError(NotAllowedError):
    """It is long ago that they proved who they are."""

    code = "confirmation_required"


def is_fresh(confirmed_at: datetime | None) -> bool:
    return confirmed_at is not None and confirmed_at > timezone.now() - HOLDS


def prove(*, user: User, password: str = "", code: str = "", address: str = "") -> None:
    """Take the proof: a code where there is a second factor, else the password.

    Raises:
        BadInputError: what is wanted was not given; it says which.
        NotSignedInError: it is not right.
        TooManySignInsError, TooManyCodesError, HashingBusyError: not now.
    """
    if has_second_factor(user):
        if not code:
            raise BadInputError.at("code", "wanted a code of your app, or a recovery code")
        use_code(user=user, code=code, address=address)
    else:
        _prove_by_password(user, password, address)
    record(Kind.USER_CONFIRMED, subject=user, by=user.handle)


def confirm_by_passkey(*, user: User) -> None:
    """Whose passkey it is was proved just now (`apps.accounts.passkeys.finish_assertion`)."""
    record(Kind.USER_CONFIRMED, subject=user, by=user.handle)


def confirm_token(*, token: ApiToken, password: str = "", code: str = "", address: str = "") -> ApiToken:
    """As `prove`; the token may then do for a while what takes a proof.

    Raises:
        ConflictError: it is a program's, and needs none.
    """
    if token.confirmed_at is None:
        raise ConflictError("this token was made for a program: its scopes hold without confirmation")
    prove(user=token.user, password=password, code=code, address=address)
    token.confirmed_at = timezone.now()
    token.save(update_fields=["confirmed_at"])
    return token


def require_fresh(confirmed_at: datetime | None) -> None:
    """Raises ConfirmationRequiredError: the last proof is too old."""
    if not is_fresh(confirmed_at):
        minutes = int(HOLDS.total_seconds() // 60)
        raise ConfirmationRequiredError(
            f"this takes a proof of who you are not older than {minutes} minutes: POST /api/v1/confirm with your"
            " password, or a code where you have a second factor (`tentalis confirm`)"
        )


def _prove_by_password(user: User, password: str, address: str) -> None:
    if not password:
        raise BadInputError.at("password", "wanted your password")
    note_try(username=user.username, address=address)
    if user.is_agent or not user.check_password(password):
        record(Kind.SIGN_IN_FAILED, subject=user, by="nobody", payload={"username": user.username, "address": address})
        raise NotSignedInError.at("password", "this is not your password")
    forgive_try(username=user.username, address=address)
