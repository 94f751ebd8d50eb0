"""Every way in which one text can be shown, made once and kept by its content."""

import hashlib
from dataclasses import dataclass

from django.core.cache import cache
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from apps.console.rendering.ansi import has_colours, render_ansi
from apps.console.rendering.hidden import visible
from apps.console.rendering.images import is_safe_image
from apps.console.rendering.markdown import looks_like_markdown, render_markdown

MOST = 64_000
"""Characters of one text that are shown; the API has the rest."""
MOST_MARKDOWN = 16_000
"""Characters of a text that is also shown as markdown: some that size take a second to parse."""
KEPT_S = 3600
VERSION = 3


@dataclass(frozen=True)
class Rich:
    """A text as HTML.

    Attributes:
        as_text: as it was written, what hides in it shown, terminal colours as classes.
        as_markdown: with its markup; "" where that would look the same.
        cut: how many characters were left out.
    """

    as_text: SafeString
    as_markdown: SafeString
    cut: int


def has_markup(text: str) -> bool:
    """Whether a text is short enough to be shown as markdown, and would look different."""
    return len(text) <= MOST_MARKDOWN and looks_like_markdown(text)


def render_rich(text: str, *, may_mark_up: bool = True) -> Rich:
    """The text's HTML. What takes long to make is kept for an hour, so that a page costs it once.

    Args:
        may_mark_up: False leaves its markdown out.
    """
    shown = text[:MOST]
    is_marked_up = may_mark_up and has_markup(text)
    if is_marked_up or "\x1b" in shown:
        as_text, as_markdown = _recall(shown, is_marked_up)
    else:
        as_text, as_markdown = _render_text(shown), ""
    return Rich(mark_safe(as_text), mark_safe(as_markdown), max(0, len(text) - MOST))  # noqa: S308  (made here)


def _recall(shown: str, is_marked_up: bool) -> tuple[str, str]:
    digest = hashlib.sha256(shown.encode("utf-8", "surrogatepass")).hexdigest()
    key = f"rich:{VERSION}:{digest}:{int(is_marked_up)}"
    made = cache.get(key)
    if made is None:
        made = [str(_render_text(shown)), str(render_markdown(shown)) if is_marked_up else ""]
        cache.set(key, made, KEPT_S)
    as_text, as_markdown = made
    return as_text, as_markdown


def _render_text(text: str) -> SafeString:
    if is_safe_image(text.strip()):
        return format_html('<img src="{}" alt="Picture in the output">', text.strip())
    return render_ansi(text) if has_colours(text) else visible(text)
