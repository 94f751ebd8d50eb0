"""API keys at rest: encrypted with a key that follows from the installation's secret key."""

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

from apps.inference.errors import SealedKeyError

_PURPOSE = b"provider-key.v1"


def seal(text: str) -> bytes:
    """Encrypt a secret for the database; "" stays empty."""
    return _fernet().encrypt(text.encode()) if text else b""


def unseal(sealed: bytes | memoryview) -> str:
    """The secret again.

    Raises:
        SealedKeyError: it was sealed under a secret key that is neither the present one nor a fallback.
    """
    if not sealed:
        return ""
    try:
        return _fernet().decrypt(bytes(sealed)).decode()
    except InvalidToken as error:
        raise SealedKeyError(
            "the API key was sealed under another TENTALIS_SECRET_KEY: bring that one back, or give the API key again"
        ) from error


def _fernet() -> MultiFernet:
    return MultiFernet([_derive(str(key)) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _derive(secret_key: str) -> Fernet:
    digest = hashlib.blake2b(secret_key.encode(), digest_size=32, person=_PURPOSE).digest()
    return Fernet(base64.urlsafe_b64encode(digest))
