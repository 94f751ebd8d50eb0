"""Whether JSON that came from elsewhere is of the types a dataclass says, all the way down."""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

MOST_SHOWN = 60


class MistypedError(ValueError):
    """A value is not of the type that is wanted of it; the message says where, what was wanted and what was found."""


def require_typed(cls: type[Any], values: Mapping[str, Any]) -> None:
    """See that each value is what the dataclass's field of that name says.

    A bool is no number, a number is finite, and an int does where a float is wanted. Names that are no field are left
    alone.

    Raises:
        MistypedError: naming the first that is not.
    """
    wanted = _read_hints(cast("Any", cls))
    for name, value in values.items():
        if name in wanted:
            _require(value, wanted[name], name)


@lru_cache
def _read_hints(cls: Any) -> dict[str, Any]:
    hints: dict[str, Any] = get_type_hints(cls)
    return hints


def _require(value: Any, wanted: Any, place: str) -> None:
    if wanted is Any:
        return
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        _require_one_of(value, arguments, wanted, place)
    elif origin is Sequence:
        if not isinstance(value, list | tuple):
            raise _mistyped(value, "a list", place)
        for index, entry in enumerate(value):
            _require(entry, arguments[0], f"{place}[{index}]")
    elif origin is Mapping:
        if not isinstance(value, dict):
            raise _mistyped(value, "an object", place)
        for name, entry in value.items():
            _require(name, arguments[0], f"a name in {place}")
            _require(entry, arguments[1], f"{place}.{_show(name)}")
    else:
        _require_scalar(value, wanted, place)


def _require_one_of(value: Any, choices: tuple[Any, ...], wanted: Any, place: str) -> None:
    if value is None and NoneType in choices:
        return None
    for choice in choices:
        try:
            return _require(value, choice, place)
        except MistypedError:
            continue
    raise _mistyped(value, str(wanted), place)


def _require_scalar(value: Any, wanted: Any, place: str) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if wanted is float:
        if not is_number or not _is_finite(value):
            raise _mistyped(value, "a finite number", place)
    elif wanted is int:
        if not is_number or not isinstance(value, int):
            raise _mistyped(value, "a whole number", place)
    elif not isinstance(value, wanted):
        raise _mistyped(value, {str: "text", bool: "true or false"}.get(wanted, str(wanted)), place)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int that no float holds
        return False


def _mistyped(value: Any, wanted: str, place: str) -> MistypedError:
    return MistypedError(f"{place} must be {wanted}, found {_show(value)}")


def _show(value: Any) -> str:
    """At most `MOST_SHOWN` characters; an int of ten thousand digits is not written out, nor a deep list."""
    if isinstance(value, list | dict | tuple):
        return {list: "a list", dict: "an object", tuple: "a list"}[type(value)]
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    shown = value if isinstance(value, str) else repr(value)
    shown = ascii(shown)[1:-1] if not shown.isprintable() else shown
    return shown if len(shown) <= MOST_SHOWN else shown[:MOST_SHOWN] + "…"
