"""JSON as RFC 8259 has it and no more: nothing that two programs read differently, nothing a database cannot keep."""

import json
import math
from typing import Any, NoReturn


class StrictJsonError(ValueError):
    """What was wanted and what was found, in words for whoever wrote the JSON."""


def read_json(text: str, *, most_levels: int, most_digits: int) -> Any:
    """The value of a JSON text.

    Args:
        most_levels: of lists and objects within each other.
        most_digits: of a whole number, which fits in 64 bits besides.
    Raises:
        StrictJsonError: no JSON, too deep or too large; NaN, a number that is infinite when it is read (1e999), a name
            twice, a NUL character or half a surrogate pair.
    """
    try:
        value = json.loads(text, object_pairs_hook=_refuse_doubles, parse_constant=_refuse_constant)
    except RecursionError:
        raise StrictJsonError(f"wanted at most {most_levels} levels, found more") from None
    except StrictJsonError:
        raise
    except ValueError as error:
        raise StrictJsonError(f"wanted JSON: {error}") from None
    _check(value, most_levels, min(2**63, 10**most_digits))
    return value


def check_text(text: str) -> None:
    """Raise StrictJsonError for a text that the database cannot store."""
    try:
        text.encode()  # half of a surrogate pair has no bytes
        is_whole = "\x00" not in text
    except UnicodeEncodeError:
        is_whole = False
    if not is_whole:
        raise StrictJsonError("texts may hold no NUL character and no half of a surrogate pair")


def _check(value: Any, levels: int, most_number: int, depth: int = 0) -> None:
    if depth > levels:
        raise StrictJsonError(f"wanted at most {levels} levels, found more")
    if isinstance(value, str):
        check_text(value)
    elif isinstance(value, list):
        for item in value:
            _check(item, levels, most_number, depth + 1)
    elif isinstance(value, dict):
        for name, item in value.items():
            check_text(name)
            _check(item, levels, most_number, depth + 1)
    elif isinstance(value, int) and abs(value) >= most_number:
        raise StrictJsonError("whole numbers must fit in 64 bits")
    elif isinstance(value, float) and not math.isfinite(value):
        raise StrictJsonError("wanted finite numbers, found one that is too large")


def _refuse_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise StrictJsonError(f"the name {name[:200]!r} stands twice")
            seen.add(name)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise StrictJsonError(f"wanted JSON, found {name}")
