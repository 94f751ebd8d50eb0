"""Fields of an untrusted JSON object, refused by their path when they are not what was wanted."""

from collections.abc import Mapping
from typing import Any

from apps.gateway.dialects.protocol import BadRequestError, Body

_MISSING = object()


def read_str(body: Body, key: str, *, at: str = "") -> str:
    """A field that must be there and be a non-empty string."""
    value = body.get(key, _MISSING)
    if not isinstance(value, str) or not value:
        raise refusal(_join(at, key), "a non-empty string", value)
    return value


def read_text(body: Body, key: str, *, at: str = "") -> str:
    """A field that must be there and be a string."""
    value = body.get(key, _MISSING)
    if not isinstance(value, str):
        raise refusal(_join(at, key), "a string", value)
    return value


def read_list(body: Body, key: str, *, at: str = "") -> list[Any]:
    """A field that must be there and be a list."""
    value = body.get(key, _MISSING)
    if not isinstance(value, list):
        raise refusal(_join(at, key), "a list", value)
    return value


def read_object(value: object, *, at: str) -> Body:
    """A value that must be an object."""
    if not isinstance(value, Mapping):
        raise refusal(at, "an object", value)
    return value


def refusal(at: str, wanted: str, value: object) -> BadRequestError:
    """The error that says what was wanted at this path, and what was there."""
    if value is _MISSING:
        return BadRequestError(f"{at}: field required ({wanted})", param=at)
    return BadRequestError(f"{at}: wanted {wanted}, found {describe(value)}", param=at)


def describe(value: object) -> str:
    """A value in a few words, cut short: it comes from outside."""
    if value is None:
        return "null"
    if isinstance(value, bool | int | float | str):
        text = repr(value)
        return text if len(text) <= 80 else text[:77] + "..."
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list) else type(value).__name__


def _join(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key
