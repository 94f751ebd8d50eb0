"""Texts that people write into fields."""

from apps.base.errors import BadInputError


def require_text(field: str, text: str, most: int) -> str:
    """Some words, without the blanks around them.

    Raises:
        BadInputError: naming the field: none, more than `most` characters, or a NUL, which Postgres does not store.
    """
    words = text.strip()
    if not words or len(words) > most or "\x00" in words:
        raise BadInputError.at(field, f"wanted 1 to {most} characters without NUL, found {len(words)}")
    return words
