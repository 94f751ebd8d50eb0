"""A field's limits, said once where the field is declared: checked when the value is made, and read by forms and docs.

    @dataclass(frozen=True, kw_only=True)
    class RetryPolicy(Checked):
        NOUN = "retry policy"
        tries: int = number(3, 1, 10)
        on_failure: str = choice("fail", ("fail", "skip"))

`RetryPolicy.from_json({"tries": 0})` raises `FieldError`: "tries: wanted a whole number from 1 to 10, found 0".

`require_typed` sees that JSON from elsewhere is of the types that any dataclass says, all the way down.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, ClassVar, Protocol, Self, Union, cast, get_args, get_origin, get_type_hints

MOST_SHOWN = 60
"""Characters of a value in the message of a `MistypedError`."""


class FieldError(ValueError):
    """A field is not what it must be; the message names it, what was wanted and what was found.

    Attributes:
        field: its name; "" where several together are at fault.
    """

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field

    @classmethod
    def at(cls, field: str, *, wanted: str, found: object, path: str = "") -> Self:
        """Of one field. `path` stands before its name in the message, as in `recipe.`."""
        return cls(f"{path}{field}: wanted {wanted}, found {found!r:.80}", field=field)


class Rule(Protocol):
    """What a field may hold."""

    @property
    def wanted(self) -> str:
        """In words, to follow "wanted"."""
        ...

    def accepts(self, value: object) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class Number:
    """A finite number in [low, high]; a bool is none.

    Args:
        above, below: the bound itself is left out.
        optional: null is taken too.
    """

    low: float
    high: float
    is_whole: bool
    above: bool = False
    below: bool = False
    optional: bool = False

    @property
    def wanted(self) -> str:
        kind = "a whole number" if self.is_whole else "a number"
        if self.above or self.below:
            low, high = "above" if self.above else "at least", "below" if self.below else "at most"
            span = f"{low} {_say(self.low)} and {high} {_say(self.high)}"
        else:
            span = f"from {_say(self.low)} to {_say(self.high)}"
        return f"{kind} {span}" + ", or null" * self.optional

    def accepts(self, value: object) -> bool:
        if value is None:
            return self.optional
        if isinstance(value, bool) or not isinstance(value, int if self.is_whole else int | float):
            return False
        if not self.low <= value <= self.high:  # NaN fails this too
            return False
        return not (self.above and value == self.low) and not (self.below and value == self.high)


def _say(bound: float) -> str:
    return f"{bound:,.0f}" if bound == int(bound) else f"{bound:g}"


@dataclass(frozen=True)
class Choice:
    """One of some texts."""

    allowed: Sequence[str]

    @property
    def wanted(self) -> str:
        return f"one of {', '.join(filter(None, self.allowed))}"

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and value in self.allowed


@dataclass(frozen=True)
class Text:
    """`least` to `most` characters; where there must be some, they are not all blanks."""

    most: int
    least: int = 0

    @property
    def wanted(self) -> str:
        return f"a text of {self.least or 'at most'} {'to ' * bool(self.least)}{self.most:,} characters"

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and len(value) <= self.most and len(value.strip()) >= self.least


@dataclass(frozen=True)
class Flag:
    """True or false."""

    wanted: ClassVar[str] = "true or false"

    def accepts(self, value: object) -> bool:
        return isinstance(value, bool)


@dataclass(frozen=True, kw_only=True)
class Several:
    """A list of `least` to `most`, each of which `each` accepts; held as a tuple."""

    each: Rule
    most: int
    least: int = 0
    distinct: bool = False

    @property
    def wanted(self) -> str:
        size = f"{self.least} to {self.most:,}" if self.least else f"at most {self.most:,}"
        return f"a list of {size}{' different' * self.distinct} ({self.each.wanted} each)"

    def accepts(self, value: object) -> bool:
        return (
            isinstance(value, tuple)
            and self.least <= len(value) <= self.most
            and all(self.each.accepts(entry) for entry in value)
            and not (self.distinct and len(set(value)) < len(value))
        )


def declare(default: Any, rule: Rule, **metadata: Any) -> Any:
    """A dataclass field with its rule."""
    return dataclasses.field(default=default, metadata={"rule": rule, **metadata})


def number(
    default: float | None,
    low: float,
    high: float,
    *,
    whole: bool | None = None,
    above: bool = False,
    below: bool = False,
    **metadata: Any,
) -> Any:
    """A field that holds a `Number`: whole where the default is, or as said; optional where that is None."""
    is_whole = isinstance(default, int) if whole is None else whole
    rule = Number(low=low, high=high, is_whole=is_whole, above=above, below=below, optional=default is None)
    return declare(default, rule, **metadata)


def choice(default: str, allowed: Sequence[str], **metadata: Any) -> Any:
    """A field that holds one of some texts."""
    return declare(default, Choice(tuple(allowed)), **metadata)


def text(default: str, most: int, *, least: int = 0, **metadata: Any) -> Any:
    """A field that holds a `Text`."""
    return declare(default, Text(most, least), **metadata)


def flag(default: bool, **metadata: Any) -> Any:
    """A field that holds true or false."""
    return declare(default, Flag(), **metadata)


def several(
    default: tuple[str, ...], each: Rule, *, most: int, least: int = 0, distinct: bool = False, **metadata: Any
) -> Any:
    """A field that holds a tuple, which is a list in JSON."""
    return declare(default, Several(each=each, most=most, least=least, distinct=distinct), **metadata)


class Checked:
    """Base of frozen dataclasses whose fields say their rules.

    Attributes:
        NOUN: what a message calls one. PATH: stands before a field's name. ERROR: what is raised.
    """

    NOUN: ClassVar[str]
    PATH: ClassVar[str] = ""
    ERROR: ClassVar[type[FieldError]] = FieldError

    def __post_init__(self) -> None:
        """Raises ERROR for the first field that its rule does not accept; subclasses add what fields are together."""
        for item in dataclasses.fields(self):  # type: ignore[arg-type]
            rule: Rule = item.metadata["rule"]
            value = getattr(self, item.name)
            if not rule.accepts(value):
                raise self.refuse(item.name, wanted=rule.wanted, found=value)

    @classmethod
    def refuse(cls, field: str, *, wanted: str, found: object) -> FieldError:
        """The error of a field."""
        return cls.ERROR.at(field, wanted=wanted, found=found, path=cls.PATH)

    def to_json(self) -> dict[str, Any]:
        values = dataclasses.asdict(self)  # type: ignore[call-overload]
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Read what `to_json` wrote; a field that is left out takes its default.

        Raises:
            FieldError: no object, a field there is none of, or one that its rule does not accept.
        """
        if not isinstance(data, Mapping):
            raise cls.ERROR.at(cls.NOUN, wanted="an object", found=data)
        known = [item.name for item in dataclasses.fields(cls)]  # type: ignore[arg-type]
        if unknown := sorted(set(map(str, data)) - set(known)):
            wanted = f"fields of {', '.join(known)}"
            raise cls.ERROR.at(cls.NOUN, wanted=wanted, found=", ".join(unknown))
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in data.items()})


def rule_of(kind: type[Checked], field: str) -> Any:
    """The rule of a field, for who must ask for the same in another form."""
    return kind.__dataclass_fields__[field].metadata["rule"]  # type: ignore[attr-defined]


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
