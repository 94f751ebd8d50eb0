"""Canonical JSON and content hashes: the same value gives the same bytes on every machine."""

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> bytes:
    """Serialise to UTF-8 JSON with sorted keys, no spaces, and no NaN or infinity.

    Raises:
        ValueError: the value holds NaN or an infinity.
        TypeError: the value holds something JSON has no form for.
    Source:
        RFC 8785 (JCS) for key order and whitespace. Numbers are Python's shortest repr, which differs from JCS for
        exponents; both sides of our wire are Python.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def content_hash(value: Any) -> str:
    """The lower-case hex SHA-256 of the value's canonical JSON."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
