"""Signing in: who tried, and how often they may."""

from datetime import timedelta

from django.db.models.functions import Now

from apps.accounts.models import User
from apps.accounts.tries import TooManySignInsError, note_try
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.audit.services import record

MAX_FAILURES = 10
WINDOW = timedelta(minutes=10)


def require_sign_in_allowed(*, username: str, address: str) -> None:
    """Count a try, and refuse a user name from an address that failed too often lately, by what the audit says.

    Raises:
        TooManySignInsError: `MAX_FAILURES` failures within `WINDOW`, or the minute's tries are used up.
    """
    note_try(username=username, address=address)
    failures = AuditEntry.objects.filter(
        kind=Kind.SIGN_IN_FAILED,
        **_subject_of(username),
        payload__username=username,
        payload__address=address,
        at__gt=Now() - WINDOW,
    )
    if len(failures.values_list("pk")[:MAX_FAILURES]) >= MAX_FAILURES:
        minutes = WINDOW.seconds // 60
        raise TooManySignInsError(
            f"Too many failed sign-ins for this user name from your address. Wait {minutes} minutes and try again."
        )


def record_failed_sign_in(*, username: str, address: str) -> None:
    user = User.objects.filter(username=username).first()
    record(Kind.SIGN_IN_FAILED, subject=user, by="anonymous", payload={"username": username, "address": address})


def record_failed_passkey(*, user: User | None, address: str) -> None:
    """`user`: whose password was right before; None where nobody's was asked for."""
    record(
        Kind.SECOND_FACTOR_FAILED,
        by="nobody",
        payload={"address": address, "kind": "passkey"} | ({"username": user.username} if user is not None else {}),
    )


def record_sign_in(*, user: User, address: str, by: str) -> None:
    """`by`: with what: password, app, recovery, passkey."""
    record(Kind.USER_SIGNED_IN, subject=user, by=user.handle, payload={"address": address, "by": by})


def record_sign_out(*, user: User) -> None:
    record(Kind.USER_SIGNED_OUT, subject=user, by=user.handle, payload={"sessions": 1})


def _subject_of(username: str) -> dict[str, object]:
    """The audit's subject for this name, so that its index finds the few rows that count."""
    user_id = User.objects.filter(username=username).values_list("pk", flat=True).first()
    if user_id is None:
        return {"subject_type": "", "subject_id__isnull": True}
    return {"subject_type": "user", "subject_id": user_id}
