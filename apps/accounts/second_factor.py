"""Something one has, beside the password one knows: codes of an app (RFC 6238), and recovery codes for when it is lost.

Passkeys are the third kind (`apps.accounts.passkeys`). Whoever has an app or a passkey has a second factor; recovery
codes come with the first and go with the last.
"""

import base64
import secrets
import time
from dataclasses import dataclass
from datetime import timedelta

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac

from apps.accounts.models import ApiToken, AuthenticatorApp, BrowserSession, Passkey, RecoveryCode, User
from apps.accounts.tokens import end_tokens
from apps.accounts.tries import forgive_try, note_try
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError, NotAllowedError, NotSignedInError, TentalisError
from apps.base.sealing import seal, unseal

ISSUER = "Tentalis"
STEP_S = 30
DIGITS = 6
DRIFT_STEPS = 1
"""How many steps a phone's clock may be behind or ahead."""
SECRET_BYTES = 20
RECOVERY_CODES = 10
RECOVERY_BYTES = 10
MOST_WRONG = 20
WINDOW = timedelta(hours=1)
"""So many wrong codes of one person, from wherever: six digits and three steps are guessed by none in a year. Only who
knows the password can use them up, and a passkey still works then."""


class SecondFactorRequiredError(NotSignedInError):
    """The password is right, and not enough."""

    code = "second_factor_required"


class SecondFactorMissingError(NotAllowedError):
    """They must have a second factor here, and have none."""

    code = "second_factor_missing"


class TooManyCodesError(TentalisError):
    """So many codes were wrong that no more are looked at for a while."""

    status = 429
    code = "too_many_codes"
    is_final = True
    retry_after_s = 600


@dataclass(frozen=True)
class Factors:
    """What a person has beside a password.

    Attributes:
        has_app: whose first code was right. passkeys: how many. codes_left: recovery codes that were not used.
    """

    has_app: bool
    passkeys: int
    codes_left: int

    @property
    def is_any(self) -> bool:
        return self.has_app or self.passkeys > 0


def find_factors(user: User) -> Factors:
    return Factors(
        has_app=_has_app(user),
        passkeys=Passkey.objects.filter(user=user).count(),
        codes_left=RecoveryCode.objects.filter(user=user, used_at=None).count(),
    )


def has_second_factor(user: User) -> bool:
    """Whether a password alone does not sign them in."""
    return _has_app(user) or Passkey.objects.filter(user=user).exists()


def lacks_required_factor(user: User) -> bool:
    """Whether this installation wants a second factor of them, and they have none."""
    required = settings.TENTALIS["REQUIRE_SECOND_FACTOR"]
    if user.is_agent or not (required == "all" or (required == "staff" and (user.is_staff or user.is_superuser))):
        return False
    return not has_second_factor(user)


def find_step(secret: bytes, code: str, *, at: float) -> int | None:
    """The time step whose code this is; None where it is of none near.

    Args:
        code: six digits. at: seconds since 1970.
    Source:
        RFC 6238 with its defaults: HMAC-SHA-1, steps of 30 s; 5.2 allows one step of drift.
    """
    totp = _app_of(secret)
    present = int(at) // STEP_S
    for step in range(max(0, present - DRIFT_STEPS), present + DRIFT_STEPS + 1):
        if constant_time_compare(totp.generate(step * STEP_S).decode(), code):
            return step
    return None


def begin_app(*, user: User) -> str:
    """The secret of an app that is not confirmed yet, the same until it is; in base32, as apps take it.

    Raises:
        ConflictError: there is an app already.
        NotAllowedError: an agent.
    """
    if user.is_agent:
        raise NotAllowedError("an agent signs in by token")
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        app = AuthenticatorApp.objects.filter(user=user).first() or AuthenticatorApp(user=user)
        if app.confirmed_at is not None:
            raise ConflictError("an app is set up already: remove it first")
        if not app.secret_sealed:
            secret = base64.b32encode(secrets.token_bytes(SECRET_BYTES)).decode()
            app.secret_sealed = seal(secret, bound_to=app.sealed_for())
            app.save()
        return unseal(app.secret_sealed, bound_to=app.sealed_for())


def write_app_address(user: User, secret: str) -> str:
    """`otpauth://` address of the secret, for a QR code."""
    return _app_of(base64.b32decode(secret)).get_provisioning_uri(user.username, ISSUER)


def confirm_app(*, user: User, code: str, keep: str) -> list[str]:
    """Turn the app on, by a first code of it.

    Args:
        keep: hash of the cookie of the session that stays; see `note_new_factor`.
    Returns:
        New recovery codes where this is the first factor, else none.
    Raises:
        BadInputError: the code is not of the app. ConflictError: there is none to confirm.
    """
    with transaction.atomic():
        app = AuthenticatorApp.objects.select_for_update().filter(user=user, confirmed_at=None).first()
        if app is None:
            raise ConflictError("there is no app to confirm: begin again")
        secret = base64.b32decode(unseal(app.secret_sealed, bound_to=app.sealed_for()))
        step = find_step(secret, _plain(code), at=time.time())
        if step is None:
            raise BadInputError.at("code", "this is not the code that the app shows; is its clock right?")
        is_first = not has_second_factor(user)
        app.confirmed_at, app.last_step = timezone.now(), step
        app.save(update_fields=["confirmed_at", "last_step"])
        return note_new_factor(user=user, kind="app", is_first=is_first, keep=keep)


def note_new_factor(*, user: User, kind: str, is_first: bool, keep: str) -> list[str]:
    """Audit it; with the first one end what a password alone had opened: other sessions, and tokens of signing in."""
    record(Kind.SECOND_FACTOR_ADDED, subject=user, by=user.handle, payload={"kind": kind})
    if not is_first:
        return []
    end_sign_ins(user, by=user.handle, keep=keep)
    return make_recovery_codes(user=user)


def remove_app(*, user: User) -> None:
    """Take the app away; with the last factor go the recovery codes. Twice is once."""
    with transaction.atomic():
        if AuthenticatorApp.objects.filter(user=user).exclude(confirmed_at=None).delete()[0]:
            note_removed_factor(user=user, kind="app", by=user.handle)


def note_removed_factor(*, user: User, kind: str, by: str) -> None:
    record(Kind.SECOND_FACTOR_REMOVED, subject=user, by=by, payload={"kind": kind})
    if not has_second_factor(user):
        RecoveryCode.objects.filter(user=user).delete()


def reset_second_factor(*, user: User, by: str) -> bool:
    """Take every factor of somebody who lost theirs, and end all they are signed in with; whether there was any."""
    with transaction.atomic():
        had = has_second_factor(user)
        for rows in (AuthenticatorApp.objects, Passkey.objects, RecoveryCode.objects):
            rows.filter(user=user).delete()
        end_sign_ins(user, by=by)
        if had:
            record(Kind.SECOND_FACTOR_REMOVED, subject=user, by=by, payload={"kind": "all"})
    return had


def make_recovery_codes(*, user: User) -> list[str]:
    """Ten new ones in place of all before. Their text is in this return value and nowhere else.

    Raises:
        ConflictError: there is no second factor that they could stand for.
    """
    if not has_second_factor(user):
        raise ConflictError("recovery codes stand for a second factor, and there is none")
    codes = [_draw_recovery_code() for _ in range(RECOVERY_CODES)]
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        RecoveryCode.objects.filter(user=user).delete()
        RecoveryCode.objects.bulk_create(RecoveryCode(user=user, code_hash=hash_recovery_code(one)) for one in codes)
        record(Kind.RECOVERY_CODES_MADE, subject=user, by=user.handle, payload={"codes": len(codes)})
    return codes


def hash_recovery_code(code: str) -> str:
    """Under a key drawn from SECRET_KEY; 80 random bits need no slow hash."""
    return salted_hmac("apps.accounts.second_factor", _plain(code), algorithm="sha256").hexdigest()


def use_code(*, user: User, code: str, address: str = "") -> str:
    """Take a code of the app or a recovery code, which does not work again.

    Returns:
        Which it was: app or recovery.
    Raises:
        TooManyCodesError, TooManySignInsError: not now.
        NotSignedInError: it is neither, or was used.
    """
    _require_tries(user, address)
    plain = _plain(code)
    kind = "app" if _use_app(user, plain) else "recovery" if _use_recovery_code(user, plain) else ""
    if not kind:
        record(Kind.SECOND_FACTOR_FAILED, subject=user, by="nobody", payload={"address": address})
        raise NotSignedInError.at("code", "this code does not work: it is wrong, too old or used")
    forgive_try(username=_name_tries(user), address=address)
    return kind


def _app_of(secret: bytes) -> TOTP:
    return TOTP(secret, DIGITS, SHA1(), STEP_S)  # noqa: S303 - what every app speaks; HMAC asks no more of it


def _require_tries(user: User, address: str) -> None:
    note_try(username=_name_tries(user), address=address)
    wrong = AuditEntry.objects.filter(
        kind=Kind.SECOND_FACTOR_FAILED, subject_type="user", subject_id=user.pk, at__gt=Now() - WINDOW
    )
    if len(wrong.values_list("pk")[:MOST_WRONG]) >= MOST_WRONG:
        minutes = int(WINDOW.total_seconds() // 60)
        raise TooManyCodesError(
            f"{MOST_WRONG} codes were wrong within {minutes} minutes. Wait, or use a passkey; if it was not you,"
            " somebody knows your password."
        )


def _name_tries(user: User) -> str:
    return f"code of user {user.pk}"


def _has_app(user: User) -> bool:
    return AuthenticatorApp.objects.filter(user=user).exclude(confirmed_at=None).exists()


def _use_app(user: User, code: str) -> bool:
    app = AuthenticatorApp.objects.filter(user=user).exclude(confirmed_at=None).first()
    if app is None or len(code) != DIGITS:
        return False
    secret = base64.b32decode(unseal(app.secret_sealed, bound_to=app.sealed_for()))
    step = find_step(secret, code, at=time.time())
    used = AuthenticatorApp.objects.filter(pk=app.pk, last_step__lt=step) if step is not None else None
    return used is not None and used.update(last_step=step) == 1


def _use_recovery_code(user: User, code: str) -> bool:
    found = RecoveryCode.objects.filter(user=user, code_hash=hash_recovery_code(code), used_at=None)
    with transaction.atomic():
        if found.update(used_at=timezone.now()) != 1:
            return False
        left = RecoveryCode.objects.filter(user=user, used_at=None).count()
        record(Kind.RECOVERY_CODE_USED, subject=user, by=user.handle, payload={"left": left})
    return True


def end_sign_ins(user: User, *, by: str, keep: str = "") -> None:
    """Sessions but one, and the tokens of signing in with what was made with them."""
    end_tokens(ApiToken.objects.filter(user=user, revoked_at=None).exclude(confirmed_at=None), by=by)
    if ended := BrowserSession.objects.filter(user=user).exclude(pk=keep).delete()[0]:
        record(Kind.USER_SIGNED_OUT, subject=user, by=by, payload={"sessions": ended})


def _draw_recovery_code() -> str:
    """Sixteen signs in fours."""
    text = base64.b32encode(secrets.token_bytes(RECOVERY_BYTES)).decode().lower()
    return "-".join(text[start : start + 4] for start in range(0, len(text), 4))


def _plain(code: str) -> str:
    """As it was meant, however it was typed."""
    return "".join(sign for sign in code.lower() if sign.isalnum())
