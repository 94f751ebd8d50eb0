"""How pages list what a program wrote down: names in words, values with their units."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.console.rendering import visible
from apps.console.templatetags.console import number
from apps.console.words_checks import say_check
from apps.console.words_facts import (
    HINT_SOURCES,
    OWN_NAMES,
    REWARD_SOURCES,
    SIGNALS,
    TURN_ENDS,
    name_choice,
    name_fact,
    say_item_set,
)
from apps.console.words_groups import group_names
from apps.console.words_settings import Words
from apps.training.models import TrainingRun
from apps.worlds.registry import WORLDS
from tentalis.core.learning.recipes import Recipe

register = template.Library()
register.filter("item_set", say_item_set)
register.filter("check_words", say_check)

MOST = 40
TABLED = frozenset({"skills", "scales", "capability", "alignment", "evidence"})
SHORT = 8
USUAL = {
    item.name: list(item.default) if isinstance(item.default, tuple) else item.default
    for item in dataclasses.fields(Recipe)
}
"""A recipe's fields with their defaults, as JSON has them."""


class RecipeRow(NamedTuple):
    """A field of a recipe in words; `usual` "" where it stands at its default."""

    label: str
    value: str
    usual: str


class RecipeGroup(NamedTuple):
    """Fields that belong together; folded away where they are seldom set and nobody set one."""

    title: Words
    rows: Sequence[RecipeRow]
    is_folded: bool


@register.filter
def beyond_tables(details: Mapping[str, object]) -> dict[str, object]:
    """A verdict's numbers that no table of its page shows."""
    return {name: value for name, value in details.items() if name not in TABLED}


@register.filter
def named(payload: object) -> list[tuple[str, str]]:
    """(name in words, value with its unit) of an object's facts, the first `MOST`. What is empty is left out."""
    found = list(_walk(payload)) if isinstance(payload, Mapping) else []
    return found[:MOST]


@register.filter
def recipe_groups(recipe: Mapping[str, object]) -> list[RecipeGroup]:
    """A recipe as the settings page groups it; one of another kind (a step scorer's) in one group."""
    groups = group_names("recipe", [name for name in recipe if name != "schema"])
    found = []
    for title, names, is_seldom in groups:
        rows = [_say_field(name, recipe[name]) for name in names if recipe[name] not in (None, "", [])]
        if rows:
            found.append(RecipeGroup(title, rows, is_seldom and not any(row.usual for row in rows)))
    return found


@register.filter
def recipe_differences(runs: Sequence[TrainingRun]) -> list[tuple[str, list[str]]]:
    """(name in words, what each run has) of what is not the same in all of their recipes."""
    recipes = [run.recipe for run in runs]
    names = dict.fromkeys(name for recipe in recipes for name in recipe if name != "schema")
    ordered = [name for group in group_names("recipe", names) for name in group.names]
    different = [name for name in ordered if any(one.get(name) != recipes[0].get(name) for one in recipes)]
    return [(str(name_fact(name).label), [_say_value(name, one.get(name)) for one in recipes]) for name in different]


def _say_value(name: str, value: object) -> str:
    return next((text for _label, text in _walk({name: value})), "–")


@register.simple_tag(takes_context=True)
def environment(context: Mapping[str, Any], name: str) -> SafeString:
    """An environment by what people call it, with its page where it is here. Args: name: or its full name, as
    `tally@1+0f3a9c1d2e4b`."""
    world = WORLDS.get(name.partition("+")[0].partition("@")[0])
    if world is None:
        return visible(name.partition("+")[0])
    page = reverse("console:environment", args=(context["scene"].project.slug, world.name))
    return format_html('<a href="{}">{}</a>', page, visible(world.label))


@register.filter
def run_name(run: TrainingRun) -> str:
    """`Run 12`, or `Run 12, half the rate` where somebody named it."""
    number_said = _("Run %(id)s") % {"id": run.pk}
    return f"{number_said}, {run.name}" if run.name else number_said


def _say_field(name: str, value: object) -> RecipeRow:
    label, said = next(_walk({name: value}))
    usual = USUAL.get(name, value)
    if usual == value:
        return RecipeRow(label, said, "")
    return RecipeRow(label, said, next((text for _label, text in _walk({name: usual})), _("none")))


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
