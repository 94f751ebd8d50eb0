"""Bearer tokens: `tnt_<key id>_<secret>`. The secret is shown once; its keyed hash is kept."""

import re
import secrets
import string
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac

from apps.accounts.models import ApiToken, Member, Project, User
from apps.accounts.rights import ROLE_RIGHTS, Right
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, NotAllowedError, NotFoundError, NotSignedInError
from tentalis.core.checked import FieldError
from tentalis.core.limits import Limits

ALPHABET = string.ascii_letters + string.digits
KEY_ID_LENGTH = 12
SECRET_LENGTH = 43  # of 62 signs: 256 bits
FORM = re.compile(rf"tnt_([A-Za-z0-9]{{{KEY_ID_LENGTH}}})_([A-Za-z0-9]{{{SECRET_LENGTH}}})")
MAX_TOKEN_DAYS = 365
DEFAULT_DAYS = 90
USE_IS_NOTED_EVERY = timedelta(minutes=1)
REFUSAL = "this token is not valid: unknown, expired or revoked"


def hash_secret(secret: str) -> str:
    """HMAC-SHA256 under a key drawn from SECRET_KEY, so that a copy of the database alone tests no guess."""
    return salted_hmac("apps.accounts.tokens", secret, algorithm="sha256").hexdigest()


def create_token(
    *,
    user: User,
    name: str,
    scopes: Iterable[str],
    by: User,
    project: Project | None = None,
    expires_in_days: int | None = None,
    limits: Mapping[str, Any] | None = None,
    made_with: ApiToken | None = None,
) -> tuple[ApiToken, str]:
    """Make a token for `user`. Its plain text is in the return value and nowhere else.

    Args:
        scopes: rights the token may use, of those its user has.
        project: bind the token to one project; needed when `by` makes it for an agent.
        expires_in_days: default 90, or what is left of `made_with`.
        limits: as a project's, for this token alone.
        made_with: the token this one is asked for with. It ends with that one, and lives no longer.
    Raises:
        NotAllowedError: `by` may make none for `user`, or it would outlive the token that makes it.
        NotFoundError: `user` is no member of the project.
        BadInputError: naming the field.
    """
    wanted = _check(
        name=name, scopes=scopes, expires_in_days=DEFAULT_DAYS if expires_in_days is None else expires_in_days
    )
    limits = _read_limits(limits or {})
    _require_maker(user=user, project=project, by=by)
    secret = "".join(secrets.choice(ALPHABET) for _ in range(SECRET_LENGTH))
    token = ApiToken(
        key_id="".join(secrets.choice(ALPHABET) for _ in range(KEY_ID_LENGTH)),
        secret_hash=hash_secret(secret),
        name=name,
        user=user,
        project=project,
        scopes=wanted,
        limits=limits,
        expires_at=timezone.now() + timedelta(days=DEFAULT_DAYS if expires_in_days is None else expires_in_days),
        made_with=made_with,
    )
    with transaction.atomic():
        if made_with is not None:
            _end_with_maker(token, made_with, is_asked=expires_in_days is not None)
        token.save(force_insert=True)
        payload = {"key_id": token.key_id, "user": user.username, "name": name, "scopes": wanted}
        record(Kind.TOKEN_CREATED, subject=token, by=by.handle, payload=payload)
    return token, f"tnt_{token.key_id}_{secret}"


def find_token(text: str) -> ApiToken:
    """The token this text is, with its user, its use noted.

    Raises:
        NotSignedInError: malformed, unknown, expired, revoked, or its user may not sign in any more; the same words for
            all of them.
    """
    match = FORM.fullmatch(text)
    if not match:
        raise NotSignedInError(REFUSAL)
    key_id, secret = match.groups()
    token = ApiToken.objects.select_related("user").filter(key_id=key_id).first()
    is_right = constant_time_compare(hash_secret(secret), token.secret_hash if token else "-" * 64)
    now = timezone.now()
    if not (token and is_right and token.revoked_at is None and token.expires_at > now and token.user.is_active):
        raise NotSignedInError(REFUSAL)
    if token.last_used_at is None or token.last_used_at < now - USE_IS_NOTED_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


def find_wider(limits: Mapping[str, Any], maker: ApiToken | None) -> list[str]:
    """Names of limits that allow more than those of the token that they are asked for with; None asks as a person."""
    held = maker.limits if maker is not None else {}
    return sorted(name for name, most in held.items() if (wanted := limits.get(name)) is None or wanted > most)


def change_token(*, token: ApiToken, by: User, limits: Mapping[str, Any], made_with: ApiToken | None) -> ApiToken:
    """Give a token other limits; {} takes them all away.

    Args:
        made_with: the token that this is asked with; None: a person's session.
    Raises:
        NotFoundError: it is neither theirs nor of an agent of a project they own.
        NotAllowedError: one's own limits are set by an owner of the token's project, and no token gives wider ones than
            its own.
        BadInputError: naming what is wrong.
    """
    _require_keeper(token, by)
    if token.limits and not (by.is_superuser or token.project is None or _owns(by, token.project)):
        raise NotAllowedError(f"the limits of this token are changed by an owner of {token.project}")
    wanted = _read_limits(limits)
    if wider := find_wider(wanted, made_with):
        raise NotAllowedError(f"this token can give none wider limits than its own: {', '.join(wider)}")
    with transaction.atomic():
        row = ApiToken.objects.select_for_update().get(pk=token.pk)
        if row.limits != wanted:
            before, row.limits = row.limits, wanted
            row.save(update_fields=["limits"])
            payload = {"key_id": row.key_id, "before": before, "after": wanted}
            record(Kind.TOKEN_CHANGED, subject=row, by=by.handle, payload=payload)
        token.limits = wanted
    return token


def revoke_token(*, token: ApiToken, by: User) -> ApiToken:
    """Make a token, and every token made with it, worthless from the next request on. Twice is once.

    Raises:
        NotFoundError: it is neither theirs nor of an agent of a project they own.
    """
    _require_keeper(token, by)
    with transaction.atomic():
        end_tokens(ApiToken.objects.filter(pk=token.pk), by=by.handle)
    token.refresh_from_db(fields=["revoked_at"])
    return token


def end_tokens(tokens: QuerySet[ApiToken], *, by: str) -> int:
    """Revoke these tokens and all that were made with them, and audit each. Within a transaction; how many."""
    now, ended = timezone.now(), 0
    generation = list(tokens.select_for_update(no_key=True).order_by("pk"))
    while generation:
        for token in generation:
            if token.revoked_at is None:
                token.revoked_at = now
                token.save(update_fields=["revoked_at"])
                record(Kind.TOKEN_REVOKED, subject=token, by=by, payload={"key_id": token.key_id})
                ended += 1
        children = ApiToken.objects.filter(made_with__in=[token.pk for token in generation])
        generation = list(children.select_for_update(no_key=True).order_by("pk"))
    return ended


def _end_with_maker(token: ApiToken, maker: ApiToken, *, is_asked: bool) -> None:
    """Hold the maker, so that it is not revoked meanwhile, and let the token live no longer than it."""
    held = ApiToken.objects.select_for_update(no_key=True).get(pk=maker.pk)
    if held.revoked_at is not None:
        raise NotSignedInError(REFUSAL)
    if token.expires_at > held.expires_at:
        if is_asked:
            message = f"this token ends at {held.expires_at:%Y-%m-%d %H:%M} UTC and can make none that outlives it"
            raise NotAllowedError(message, errors={"expires_in_days": [message]})
        token.expires_at = held.expires_at


def _require_keeper(token: ApiToken, by: User) -> None:
    if token.user_id != by.pk and not by.is_superuser and not _owns(by, token.project):
        raise NotFoundError(f"no token {token.pk}")


def _read_limits(limits: Mapping[str, Any]) -> dict[str, Any]:
    try:
        Limits.from_json(limits)
    except FieldError as error:
        raise BadInputError.at("limits", str(error)) from None
    return dict(limits)


def _check(*, name: str, scopes: Iterable[str], expires_in_days: int) -> list[str]:
    wanted = sorted(set(scopes))
    if not name.strip() or len(name) > 100:
        raise BadInputError.at("name", f"wanted 1 to 100 characters, found {len(name.strip())}")
    if unknown := [scope for scope in wanted if scope not in Right.values]:
        raise BadInputError.at("scopes", f"wanted scopes of {', '.join(Right.values)}, found {', '.join(unknown)}")
    if not wanted:
        raise BadInputError.at("scopes", "wanted at least one scope, found none")
    if not 1 <= expires_in_days <= MAX_TOKEN_DAYS:
        raise BadInputError.at("expires_in_days", f"wanted 1 to {MAX_TOKEN_DAYS} days, found {expires_in_days}")
    return wanted


def _require_maker(*, user: User, project: Project | None, by: User) -> None:
    if project is not None and not Project.objects.visible_to(user).filter(pk=project.pk).exists():
        raise NotFoundError(f"{user.username} is no member of a project {project.slug}")
    if by.pk == user.pk or by.is_superuser:
        return
    if not (user.is_agent and _owns(by, project)):
        raise NotAllowedError(f"{by.username} can make tokens for themselves and for agents of projects they own")


def _owns(user: User, project: Project | None) -> bool:
    if project is None or not user.is_active:
        return False
    keepers = [role for role, rights in ROLE_RIGHTS.items() if Right.MEMBERS_WRITE in rights]
    return Member.objects.filter(project=project, user=user, role__in=keepers).exists()
