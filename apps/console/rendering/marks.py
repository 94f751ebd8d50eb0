"""Stretches of a text that somebody, or a scorer, marked."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from apps.console.rendering.hidden import visible


@dataclass(frozen=True, order=True)
class Mark:
    """Characters [start, end) of a text, and what is said of them."""

    start: int
    end: int
    label: str


def render_marked(text: str, marks: Iterable[Mark]) -> SafeString:
    """The text with its marks. Every mark carries its label as words: colour alone says nothing to many people.

    Marks are cut to the text; where two overlap, the later one begins where the earlier ends.
    """
    pieces, last = [], 0
    for mark in sorted(marks):
        start, end = max(mark.start, last), min(mark.end, len(text))
        if start >= end:
            continue
        pieces.append(visible(text[last:start]))
        pieces.append(
            format_html(
                '<mark>{}<span class="mark-label"> [{}]</span></mark>', visible(text[start:end]), visible(mark.label)
            )
        )
        last = end
    pieces.append(visible(text[last:]))
    return format_html_join("", "{}", ((piece,) for piece in pieces))
