"""How pages list what a program wrote down: names in words, values with their units."""

from collections.abc import Iterator, Mapping

from django import template
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.console.templatetags.console import number
from apps.console.words_facts import HINT_SOURCES, OWN_NAMES, REWARD_SOURCES, SIGNALS, TURN_ENDS, name_choice, name_fact

register = template.Library()

MOST = 40
SHORT = 8


@register.filter
def named(payload: object) -> list[tuple[str, str]]:
    """(name in words, value with its unit) of an object's facts, the first `MOST`. What is empty is left out."""
    found = list(_walk(payload)) if isinstance(payload, Mapping) else []
    return found[:MOST]


@register.filter
def reward_source(name: str) -> str:
    """Whose word a reward is."""
    return str(REWARD_SOURCES.get(name, name))


@register.filter
def signal(kind: str) -> str:
    """What a person's next words showed."""
    return str(SIGNALS.get(kind, kind))


@register.filter
def turn_end(closed_by: str) -> str:
    """How a turn ended."""
    return str(TURN_ENDS.get(closed_by, closed_by))


@register.filter
def hint_source(name: str) -> str:
    """Who drew a hint out of a feedback."""
    if name.startswith("model:"):
        return _("read by the model %(name)s") % {"name": name.removeprefix("model:")}
    return str(HINT_SOURCES.get(name, name))


def _walk(facts: Mapping[str, object], above: str = "", with_own_names: bool = False) -> Iterator[tuple[str, str]]:
    for key, value in facts.items():
        name = name_fact(str(key))
        label = str(key) if with_own_names else str(name.label)
        label = f"{above}: {label}" if above else label
        if isinstance(value, Mapping):
            yield from _walk(value, label, key in OWN_NAMES)
        elif value is None or value in ("", [], ()):
            continue
        elif isinstance(value, bool):
            yield label, _("yes") if value else _("no")
        elif isinstance(value, int | float):
            yield label, f"{number(value)} {name.unit}".strip()
        elif isinstance(value, list | tuple):
            is_short = len(value) <= SHORT and all(not isinstance(item, Mapping | list | tuple) for item in value)
            said = ngettext("%(count)s entry", "%(count)s entries", len(value)) % {"count": len(value)}
            yield label, ", ".join(map(str, value)) if is_short else said
        else:
            yield label, str(name_choice(str(key), value))
