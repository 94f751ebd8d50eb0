"""Passwords that follow from one another, so that a home keeps few."""

import hashlib
import hmac


def derive_password(secret: str, label: str) -> str:
    """64 hex digits that follow from a secret for one use; from them nobody finds the secret or another use's.

    Source:
        HMAC-SHA256 as a key derivation with a label (one block of HKDF-Expand, RFC 5869).
    """
    return hmac.new(secret.encode(), b"tentalis " + label.encode(), hashlib.sha256).hexdigest()
