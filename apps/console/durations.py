"""Lengths of time as people write them: "12 h", "3 days". Behind a form they are seconds, as everywhere else."""

import math
import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.text import format_lazy
from django.utils.translation import gettext as now_in_words
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

UNITS = (
    (86_400, re.compile(r"d|days?"), ngettext_lazy("%(n)s day", "%(n)s days", "n")),
    (3_600, re.compile(r"h|hours?"), _("%(n)s h")),
    (60, re.compile(r"min|minutes?"), _("%(n)s min")),
    (1, re.compile(r"s|sec|seconds?"), _("%(n)s s")),
)
PART = re.compile(r"\s*(\d+(?:[.,]\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)


def say_seconds(seconds: float) -> str:
    """Exactly: reading it again gives the same."""
    if seconds == 0 or seconds != int(seconds):
        return str(UNITS[-1][2] % {"n": f"{seconds:.12g}"})
    return " ".join(part for part in _split(int(seconds)) if part)


def say_about(seconds: float | None) -> str:
    """As exactly as a reader needs it: the two largest units of it; – where there is none."""
    if seconds is None:
        return "–"
    if 0 < seconds < 1:
        return now_in_words("%(n)s ms") % {"n": round(1000 * seconds)}
    if seconds < 60:
        return str(UNITS[-1][2] % {"n": f"{int(10 * seconds) / 10:g}"})
    return " ".join(part for part in _split(int(seconds))[:2] if part)


def _split(seconds: int) -> list[str]:
    """In words by unit from the largest there is any of; "" for one of which there is none."""
    parts: list[str] = []
    for length, _pattern, words in UNITS:
        n, seconds = divmod(seconds, length)
        if n or parts:
            parts.append(str(words % {"n": n}) if n else "")
    return parts


def read_seconds(text: str) -> float:
    """Raises ValueError where it is no number with its unit, or several of them; 0 needs none."""
    text = text.strip()
    if text == "0":
        return 0.0
    parts, end = [], 0
    while found := PART.match(text, end):
        length = next((length for length, pattern, _words in UNITS if pattern.fullmatch(found[2].lower())), None)
        if length is None:
            break
        parts.append(float(found[1].replace(",", ".")) * length)
        end = found.end()
    if not parts or end != len(text) or not math.isfinite(sum(parts)):
        raise ValueError(text)
    return sum(parts)


class DurationField(forms.CharField):
    """A time with its unit. What is cleaned is seconds, whole ones where `is_whole`; None where nothing stands."""

    def __init__(
        self,
        *,
        is_whole: bool = False,
        min_s: float = 0.0,
        max_s: float | None = None,
        help_text: Any = "",
        **more: Any,
    ) -> None:
        self.is_whole, self.min_s, self.max_s = is_whole, min_s, max_s
        such = _("Such as 30 min, 12 h or 3 days.")
        super().__init__(max_length=60, help_text=format_lazy("{} {}", help_text, such) if help_text else such, **more)
        self.widget.attrs.setdefault("autocomplete", "off")

    def prepare_value(self, value: Any) -> Any:
        return say_seconds(value) if isinstance(value, int | float) else value

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        if not text:
            return None
        try:
            seconds = read_seconds(text)
        except ValueError:
            wanted = now_in_words("Wanted a time with its unit, such as 30 min, 12 h or 3 days, found %(text)s.")
            raise ValidationError(wanted % {"text": text}) from None
        if seconds < self.min_s:
            raise ValidationError(now_in_words("Wanted at least %(least)s.") % {"least": say_seconds(self.min_s)})
        if self.max_s is not None and seconds > self.max_s:
            raise ValidationError(now_in_words("Wanted at most %(most)s.") % {"most": say_seconds(self.max_s)})
        if self.is_whole and seconds != int(seconds):
            raise ValidationError(now_in_words("Wanted whole seconds, found %(text)s.") % {"text": text})
        return int(seconds) if self.is_whole else seconds
