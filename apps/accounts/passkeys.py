"""Passkeys (WebAuthn level 3): kept by a device that makes sure who holds it, they are two factors in one.

They stand for the second factor after a password, for a fresh proof, and sign in by themselves. A passkey belongs to
the host name the console was opened under: browsers see to it, and so is it checked here.
"""

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from fido2.server import Fido2Server
from fido2.webauthn import (
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialDescriptor,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialType,
    PublicKeyCredentialUserEntity,
    RegistrationResponse,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from apps.accounts.models import Passkey, User
from apps.accounts.second_factor import ISSUER, has_second_factor, note_new_factor, note_removed_factor
from apps.base.errors import BadInputError, ConflictError, NotAllowedError, NotFoundError, NotSignedInError

MOST = 20
"""Passkeys of one person."""
MAX_CREDENTIAL_CHARS = 50_000


class Site:
    """Where the console is: what a browser binds a passkey to.

    Args:
        origins: from which it may be used, `https://tentalis.example`; the first is this request's.
        host: name without a port.
    """

    def __init__(self, *, host: str, origins: list[str]) -> None:
        relying = PublicKeyCredentialRpEntity(name=ISSUER, id=host)
        self.server = Fido2Server(relying, verify_origin=lambda origin: origin in origins)


def begin_registration(*, user: User, site: Site) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the browser is asked for a new passkey, and what is to be remembered until it answers.

    Raises:
        NotAllowedError: an agent. ConflictError: they have as many as one may.
    """
    if user.is_agent:
        raise NotAllowedError("an agent signs in by token")
    if Passkey.objects.filter(user=user).count() >= MOST:
        raise ConflictError(f"you have {MOST} passkeys: remove one first")
    asked, state = site.server.register_begin(
        PublicKeyCredentialUserEntity(id=_handle(user), name=user.username, display_name=user.username),
        credentials=_describe(user),
        resident_key_requirement=ResidentKeyRequirement.PREFERRED,
        user_verification=UserVerificationRequirement.REQUIRED,
    )
    return dict(asked)["publicKey"], _plain(state)


def finish_registration(
    *, user: User, site: Site, state: Mapping[str, Any], answer: Mapping[str, Any], name: str, keep: str
) -> list[str]:
    """Keep the new passkey.

    Args:
        state: of `begin_registration`. answer: the browser's, as JSON. keep: as in `confirm_app`.
    Returns:
        New recovery codes where this is the first factor, else none.
    Raises:
        BadInputError: the answer is not one to what was asked, or there is no name.
    """
    if not 1 <= len(name.strip()) <= 100:
        raise BadInputError.at("name", f"wanted 1 to 100 characters, found {len(name.strip())}")
    try:
        data = site.server.register_complete(state, RegistrationResponse.from_dict(answer)).credential_data
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInputError(f"the browser's answer does not fit: {error}") from error
    if data is None:
        raise BadInputError("the browser's answer holds no key")
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        is_first = not has_second_factor(user)
        try:
            with transaction.atomic():
                Passkey.objects.create(
                    user=user, name=name.strip(), credential_id=data.credential_id, credential=bytes(data)
                )
        except IntegrityError:
            raise ConflictError("this passkey is known already") from None
        return note_new_factor(user=user, kind="passkey", is_first=is_first, keep=keep)


def begin_assertion(*, user: User | None, site: Site) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the browser is asked for a passkey: of this person, or of whoever is there."""
    credentials = _describe(user) if user is not None else None
    asked, state = site.server.authenticate_begin(credentials, UserVerificationRequirement.REQUIRED)
    return dict(asked)["publicKey"], _plain(state)


def finish_assertion(*, user: User | None, site: Site, state: Mapping[str, Any], answer: Mapping[str, Any]) -> User:
    """Whose passkey it is.

    Args:
        user: it must be theirs; None: whoever's.
    Raises:
        NotSignedInError: it is nobody's here, or the answer is not one to what was asked.
    """
    refusal = NotSignedInError("this passkey does not work here")
    try:
        given = AuthenticationResponse.from_dict(answer)
        passkey = Passkey.objects.select_related("user").filter(credential_id=given.raw_id).first()
        if passkey is None or not passkey.user.is_active or (user is not None and passkey.user_id != user.pk):
            raise refusal
        handle = given.response.user_handle
        if handle is not None and handle != _handle(passkey.user):
            raise refusal
        site.server.authenticate_complete(state, [AttestedCredentialData(bytes(passkey.credential))], given)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise refusal from error
    Passkey.objects.filter(pk=passkey.pk).update(last_used_at=timezone.now())
    return passkey.user


def remove_passkey(*, user: User, passkey_id: int) -> None:
    """Take one away; with the last factor go the recovery codes. Raises NotFoundError: it is not theirs."""
    with transaction.atomic():
        if not Passkey.objects.filter(user=user, pk=passkey_id).delete()[0]:
            raise NotFoundError("no such passkey")
        note_removed_factor(user=user, kind="passkey", by=user.handle)


def _handle(user: User) -> bytes:
    """How devices know them: no name, which may change and which others could read."""
    return f"user {user.pk}".encode()


def _describe(user: User) -> list[PublicKeyCredentialDescriptor]:
    ids = Passkey.objects.filter(user=user).values_list("credential_id", flat=True)
    return [PublicKeyCredentialDescriptor(type=PublicKeyCredentialType.PUBLIC_KEY, id=bytes(one)) for one in ids]


def _plain(state: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON knows it."""
    return {name: str(getattr(value, "value", value)) for name, value in state.items()}
