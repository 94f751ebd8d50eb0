"""A check written without code: some parts, each one kind with what it wants, and how they are joined."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.base.web_json import read_web_json
from apps.checks.facts import write_facts
from tentalis.core.field_limits import MAX_ABOUT_CHARS, MAX_PROMPT_CHARS

PARTS = 5
Build = Callable[[str], Mapping[str, Any]]


def _count(side: str, unit: str) -> Build:
    return lambda text: {"check": "length", "unit": unit, side: _read_whole(text)}


def _read_whole(text: str) -> Any:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text


def _read_number(text: str) -> Mapping[str, Any]:
    value, sign, tolerance = (part.strip() for part in text.partition("±"))
    found: dict[str, Any] = {"check": "number", "value": value}
    return found | ({"tolerance": _read_float(tolerance)} if sign else {})


def _read_float(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _read_list(text: str) -> list[str]:
    return [word.strip() for word in re.split(r"[,\n]", text) if word.strip()]


def _read_asked(kind: str, field: str, text: str) -> Mapping[str, Any]:
    """`text ≥ 0.7`; no rubric is the project's."""
    said, sign, least = (part.strip() for part in text.replace(">=", "≥").rpartition("≥"))
    words = said if sign else text.strip()
    found: dict[str, Any] = {"check": kind} | ({field: words} if words or field == "name" else {})
    return found | ({"min": _read_float(least)} if sign else {})


KINDS: Mapping[str, tuple[Any, Build]] = {
    "contains": (_("holds this text"), lambda text: {"check": "contains", "value": text}),
    "exact": (_("is exactly this text"), lambda text: {"check": "exact", "value": text}),
    "number": (_("has this number last (12 ± 0.5)"), _read_number),
    "most_words": (_("has at most this many words"), _count("max", "words")),
    "least_words": (_("has at least this many words"), _count("min", "words")),
    "most_characters": (_("has at most this many characters"), _count("max", "characters")),
    "most_lines": (_("has at most this many lines"), _count("max", "lines")),
    "forbidden": (
        _("uses none of these words (commas between)"),
        lambda text: {"check": "forbidden", "words": _read_list(text)},
    ),
    "language": (_("is written in (de, en, …)"), lambda text: {"check": "language", "languages": _read_list(text)}),
    "regex": (_("matches this pattern (RE2)"), lambda text: {"check": "regex", "pattern": text}),
    "json_schema": (
        _("is JSON as this schema says"),
        lambda text: {"check": "json_schema", "schema": read_web_json(text)},
    ),
    "scorer": (_("is given a good score by this scorer (effort ≥ 0.8)"), partial(_read_asked, "scorer", "name")),
    "judge": (_("is as this rubric says, by a judge (rubric ≥ 0.7)"), partial(_read_asked, "judge", "rubric")),
    "use": (_("passes this check (name@version)"), lambda text: {"use": text}),
}
"""What people choose -> its words, and how the text beside it becomes a check."""
WITHOUT_FACTS = frozenset({"json_schema", "scorer", "judge", "use"})
"""Of these a text in braces stays as it is: JSON says {"fact": "order"} itself."""
JOINS = (
    ("all", _("all of these hold")),
    ("any", _("one of these holds")),
    ("weighted", _("by weight: as good as the share of these that holds")),
)


class CheckForm(forms.Form):
    """`spec` is the check that was put together; the language itself says what is wrong with it."""

    name = forms.CharField(label=_("Name"), max_length=100, help_text=_("An existing name makes its next version."))
    about = forms.CharField(label=_("What it is for"), max_length=MAX_ABOUT_CHARS, required=False)
    join = forms.ChoiceField(label=_("An answer is right if"), choices=JOINS, initial="all")
    spec: Any = None

    def __init__(self, *told: Any, is_tried: bool = False, **options: Any) -> None:
        super().__init__(*told, **options)
        if is_tried:
            self.fields["name"].required = False
        choices = [("", "—"), *((kind, words) for kind, (words, _build) in KINDS.items())]
        for place in range(PARTS):
            number = place + 1
            self.fields[f"kind_{place}"] = forms.ChoiceField(
                label=_("Part %(number)s: the answer") % {"number": number}, choices=choices, required=False
            )
            self.fields[f"value_{place}"] = forms.CharField(
                label=_("What part %(number)s wants") % {"number": number},
                max_length=MAX_PROMPT_CHARS,
                required=False,
                widget=forms.Textarea(attrs={"rows": 1}),
            )
            self.fields[f"weight_{place}"] = forms.FloatField(
                label=_("Weight of part %(number)s") % {"number": number},
                required=False,
                min_value=0.001,
                max_value=1000,
            )

    @property
    def parts(self) -> Iterator[tuple[Any, Any, Any]]:
        """The fields of each part."""
        for place in range(PARTS):
            yield self[f"kind_{place}"], self[f"value_{place}"], self[f"weight_{place}"]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        parts, weights = [], []
        for place in range(PARTS):
            kind, text = data.get(f"kind_{place}"), str(data.get(f"value_{place}") or "").strip()
            if not kind:
                if text:
                    self.add_error(f"kind_{place}", _("Choose what the answer has to be."))
                continue
            try:
                part = KINDS[kind][1](text)
                parts.append(part if kind in WITHOUT_FACTS else {name: write_facts(part[name]) for name in part})
            except ValueError as error:
                self.add_error(f"value_{place}", str(error))
            weights.append(data.get(f"weight_{place}") or 1.0)
        if not parts and not self.errors:
            self.add_error("kind_0", _("Choose what the answer has to be."))
        if not self.errors:
            self.spec = _join(str(data["join"]), parts, weights)
        return data


def _join(join: str, parts: list[Any], weights: list[float]) -> Any:
    if join == "weighted":
        return {join: [list(pair) for pair in zip(weights, parts, strict=True)]}
    return parts[0] if len(parts) == 1 else {join: parts}
