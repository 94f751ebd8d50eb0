"""Facts of a task or an item, which a check takes its values from: {"fact": "order"}, or {"fact": "Dear {customer},"}.

So one check holds for every ticket. A fact is a text, a number, true or false, or a list of texts.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from apps.checks.results import CheckError

NAME: Final = r"[a-z][a-z0-9_]{0,39}"
MOST_FACTS: Final = 50
MOST_CHARS: Final = 2_000
_IS_NAME: Final = re.compile(NAME)
_IN_TEXT: Final = re.compile(rf"(?<!\\[xpP])\{{({NAME})\}}")
"""Of a pattern, signs of Unicode such as `\\x{ff}` aside."""
Facts = Mapping[str, Any]


def is_fact(value: Any) -> bool:
    """Whether a value stands for a fact."""
    return isinstance(value, Mapping) and value.keys() == {"fact"} and isinstance(value["fact"], str)


def find_facts(value: Any, where: str) -> frozenset[str]:
    """The names of all facts in a value. Raises CheckError for one that names none."""
    if is_fact(value):
        names = _read_names(value["fact"], where)
        return frozenset(names)
    return frozenset().union(*(find_facts(one, where) for one in _find_inner(value)))


def write_facts(value: Any) -> Any:
    """What somebody writes in a form as a check's value: a text that holds {order} wants the fact `order`."""
    if isinstance(value, str) and (names := _IN_TEXT.findall(value)):
        return {"fact": names[0] if value == f"{{{names[0]}}}" else value}
    return [write_facts(one) for one in value] if isinstance(value, list) else value


def find_open(spec: Any, where: str = "check") -> frozenset[str]:
    """The facts that a stored check wants of whoever uses it."""
    if not isinstance(spec, Mapping) or "use" not in spec:
        if isinstance(spec, Mapping) and "check" in spec:
            return find_facts(spec, where)
        return frozenset().union(*(find_open(one, where) for one in _find_inner(spec)))
    given = spec.get("with") or {}
    return find_facts(given, where) | (find_open(spec.get("is"), where) - frozenset(given))


def bind(value: Any, facts: Facts, where: str, *, quote: Callable[[str], str] | None = None) -> Any:
    """A value with its facts written out.

    Args:
        quote: what makes a text that a pattern takes literally; so every fact in it is put in as text.
    Raises:
        CheckError: a fact is not there, or is none that can be put there.
    """
    if is_fact(value):
        text = value["fact"]
        for name in _read_names(text, where):
            _read_fact(name, facts, where)
        if quote is None and _IS_NAME.fullmatch(text):
            return facts[text]
        text = f"{{{text}}}" if _IS_NAME.fullmatch(text) else text
        return _IN_TEXT.sub(lambda found: (quote or str)(_as_text(found[1], facts, where)), text)
    again = partial(bind, facts=facts, where=where, quote=quote)
    if isinstance(value, Mapping):
        return {name: again(one) for name, one in value.items()}
    return [again(one) for one in value] if isinstance(value, list) else value


def read_given(given: Any, where: str, *, wanted: Collection[str]) -> Facts:
    """The facts that a check is used with. Raises CheckError for what is none, or for what it does not want."""
    if not isinstance(given, Mapping) or len(given) > MOST_FACTS:
        raise CheckError(f"{where}: wanted an object of at most {MOST_FACTS} facts, found {given!r:.200}")
    if others := sorted(set(given) - set(wanted)):
        raise CheckError(f"{where}: wanted {_list(wanted)}, found {_list(others)}")
    for name, value in given.items():
        if not is_fact(value):
            _read_fact(name, given, where)
    return given


def _read_names(text: str, where: str) -> list[str]:
    names = [text] if _IS_NAME.fullmatch(text) else _IN_TEXT.findall(text)
    if not names:
        wanted = "the name of a fact such as order, or a text that holds some such as Order {order}"
        raise CheckError(f"{where}: wanted {wanted}, found {text!r:.200}")
    return names


def _read_fact(name: str, facts: Facts, where: str) -> None:
    if name not in facts:
        raise CheckError(f"{where}: wanted the fact {name!r} of its task or item, found {_list(facts)}")
    value = facts[name]
    if isinstance(value, list):
        is_right = bool(value) and all(isinstance(one, str) for one in value)
    else:
        is_right = isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    if not is_right or value == "" or len(str(value)) > MOST_CHARS:
        wanted = f"a text, a finite number, true or false, or a list of texts, of at most {MOST_CHARS:,} characters"
        raise CheckError(f"{where}: wanted of the fact {name!r} {wanted}, found {value!r:.200}")


def _as_text(name: str, facts: Facts, where: str) -> str:
    value = facts[name]
    if isinstance(value, list | bool):
        raise CheckError(f"{where}: wanted of the fact {name!r} a text or a number, found {value!r:.200}")
    return str(value)


def _find_inner(value: Any) -> Collection[Any]:
    return value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()


def _list(names: Collection[str]) -> str:
    return ", ".join(sorted(map(str, names)))[:200] or "none"
