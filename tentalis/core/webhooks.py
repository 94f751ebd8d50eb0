"""Signatures by which a receiver knows a message is ours, new and whole (Standard Webhooks 1.0, symmetric).

Source:
    https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping

PREFIX = "whsec_"
MIN_SECRET_BYTES = 24
TOLERANCE_S = 300
MAX_STAMP_DIGITS = 15
"""Of Unix seconds; whoever sends more means no time."""


class SignatureError(ValueError):
    """The message is not signed with the secret, or is too old; or the secret is none."""


def write_secret(key: bytes) -> str:
    """How a secret is written: `whsec_` and base64. Raises ValueError for fewer than 24 bytes."""
    if len(key) < MIN_SECRET_BYTES:
        raise ValueError(f"wanted at least {MIN_SECRET_BYTES} bytes, found {len(key)}")
    return PREFIX + base64.b64encode(key).decode()


def make_headers(*, message_id: str, at_s: int, body: bytes, secret_texts: Iterable[str]) -> dict[str, str]:
    """The three headers of a message.

    Args:
        at_s: when this attempt is sent, Unix seconds.
        secret_texts: every secret in force; one signature each.
    """
    signatures = [f"v1,{_sign(text, message_id, at_s, body)}" for text in secret_texts]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at_s),
        "webhook-signature": " ".join(signatures),
    }


def verify_webhook(*, headers: Mapping[str, str], body: bytes, secret: str, now_s: float) -> None:
    """What a receiver does before it believes a message.

    Args:
        headers: names in lower case.
    Raises:
        SignatureError: saying what is wrong.
    """
    message_id, stamp, given = (headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (message_id and given.isascii() and given and stamp.isascii() and stamp.isdigit()):
        raise SignatureError("wanted the headers webhook-id, webhook-timestamp and webhook-signature")
    if len(stamp) > MAX_STAMP_DIGITS:
        raise SignatureError(f"wanted a timestamp of at most {MAX_STAMP_DIGITS} digits, found {len(stamp)}")
    if abs(now_s - int(stamp)) > TOLERANCE_S:
        raise SignatureError(
            f"wanted a timestamp within {TOLERANCE_S} s of now, found one {now_s - int(stamp):.0f} s ago"
        )
    wanted = _sign(secret, message_id, int(stamp), body)
    found = [text.partition(",")[2] for text in given.split() if text.startswith("v1,")]
    if not any(hmac.compare_digest(wanted, text) for text in found):
        raise SignatureError("no signature of this secret")


def _sign(secret: str, message_id: str, at_s: int, body: bytes) -> str:
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError as error:
        raise SignatureError(f"wanted a secret of the form {PREFIX}<base64>") from error
    if len(key) < MIN_SECRET_BYTES:  # with an empty one anybody can sign
        raise SignatureError(f"wanted a secret of at least {MIN_SECRET_BYTES} bytes, found {len(key)}")
    digest = hmac.new(key, f"{message_id}.{at_s}.".encode() + body, hashlib.sha256).digest()
    return base64.b64encode(digest).decode()
