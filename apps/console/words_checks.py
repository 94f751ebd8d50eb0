"""Checks in words: what a right answer has to be, as a manager would say it."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from django.utils.translation import gettext as _

from apps.checks.facts import is_fact

KINDS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "contains": lambda spec: _("holds “%s”") % _spell(spec.get("value")),
    "exact": lambda spec: _("is “%s”") % _spell(spec.get("value")),
    "number": lambda spec: _("ends with the number %s") % _spell_number(spec),
    "length": lambda spec: _("has %s") % _spell_length(spec),
    "forbidden": lambda spec: _("uses none of: %s") % _list(spec.get("words")),
    "language": lambda spec: _("is written in %s") % _list(spec.get("languages")),
    "regex": lambda spec: _("matches the pattern %s") % _spell(spec.get("pattern")),
    "json_schema": lambda spec: _("is JSON as a schema says"),
    "scorer": lambda spec: _("is scored well by %s") % _spell(spec.get("name")) + _spell_least(spec),
    "judge": lambda spec: _("a judge finds it as wanted: %s") % _spell_rubric(spec) + _spell_least(spec),
    "grader": lambda spec: _("is right to the grader %s") % _spell(spec.get("name")),
}


def say_check(spec: Any) -> str:
    """Any check, or a list of them that all have to hold; "" for none; as JSON where it is of no kind known here."""
    match spec:
        case None | []:
            return ""
        case {"use": name}:
            return _("passes %s") % _spell(name)
        case {"check": str(kind)} if kind in KINDS:
            return KINDS[kind](spec)
        case {"all": list(parts)}:
            return _join(_("; and "), parts)
        case {"any": list(parts)}:
            return _join(_("; or "), parts)
        case {"weighted": list(pairs)}:
            words = _("%(check)s (weight %(weight)s)")
            return "; ".join(words % {"check": say_check(part), "weight": _spell(weight)} for weight, part in pairs)
        case list():
            return _join("; ", spec)
    return json.dumps(spec, ensure_ascii=False)


def _join(words: str, parts: list[Any]) -> str:
    return words.join(map(say_check, parts))


def _spell(value: Any) -> str:
    """A text, or the fact that stands in its place: `{order}`."""
    if is_fact(value):
        name = str(value["fact"])
        return name if "{" in name else f"{{{name}}}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _list(values: Any) -> str:
    return ", ".join(map(_spell, values)) if isinstance(values, list) else _spell(values)


def _spell_number(spec: Mapping[str, Any]) -> str:
    tolerance = spec.get("tolerance")
    return _spell(spec.get("value")) + (f" ± {_spell(tolerance)}" if tolerance else "")


def _spell_length(spec: Mapping[str, Any]) -> str:
    least, most, unit = spec.get("min"), spec.get("max"), spec.get("unit", "characters")
    said = [_("at least %s") % _spell(least)] if least is not None else []
    said += [_("at most %s") % _spell(most)] if most is not None else []
    return f"{_(' and ').join(said)} {unit}"


def _spell_rubric(spec: Mapping[str, Any]) -> str:
    return _spell(spec["rubric"]) if "rubric" in spec else _("by the guidelines")


def _spell_least(spec: Mapping[str, Any]) -> str:
    return f" (≥ {_spell(spec['min'])})" if "min" in spec else ""
