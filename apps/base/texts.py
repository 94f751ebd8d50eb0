"""Texts that people write into fields, and what of texts Postgres can hold."""

import re
from typing import Any

from apps.base.errors import BadInputError

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def make_storable(value: Any) -> Any:
    """A JSON value whose NUL characters and half surrogate pairs, which Postgres refuses, are U+FFFD."""
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, list):
        return [make_storable(one) for one in value]
    if isinstance(value, dict):
        return {make_storable(name): make_storable(one) for name, one in value.items()}
    return value


def require_text(field: str, text: str, most: int) -> str:
    """Some words, without the blanks around them.

    Raises:
        BadInputError: naming the field: none, more than `most` characters, or a NUL, which Postgres does not store.
    """
    words = text.strip()
    if not words or len(words) > most or "\x00" in words:
        raise BadInputError.at(field, f"wanted 1 to {most} characters without NUL, found {len(words)}")
    return words
