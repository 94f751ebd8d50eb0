"""How the pages about reviews show what somebody wrote, and what was marked in it."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import template
from django.template import Context
from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps.console.rendering import MOST, Mark, allowance_of, has_markup, link_to_part, render_marked, render_rich
from apps.feedback.models import StepFeedback
from apps.scoring.models import StepScore

register = template.Library()

HEAD = 200
"""Characters of a text that another part of the page shows."""


@register.inclusion_tag("console/_words_rich.html", takes_context=True)
def rich(context: Context, text: str, markable: str = "") -> Mapping[str, Any]:
    """A text as written, and as markdown where it has markup; the reader switches between the two. Where the page has
    shown enough, its beginning and a link to the part of the page that shows it.

    Args:
        markable: what the page calls the place; its characters can be marked by selecting them, where the shown
            characters are the text's own.
    """
    request = context.get("request")
    share = allowance_of(request).take(len(text), has_markup=has_markup(text))
    if not share.is_shown:
        return {"head": text[:HEAD], "more": len(text) - HEAD, "link": link_to_part(request, share.part)}
    plain = len(text) <= MOST and "\x1b" not in text and "\r" not in text
    return {"made": render_rich(text, may_mark_up=share.may_mark_up), "markable": markable if plain else ""}


@register.simple_tag
def marked(text: str, words: Sequence[StepFeedback] | None, scores: Sequence[StepScore] = ()) -> SafeString:
    """A step's text with what reviewers marked in it and what scorers hold for made up."""
    marks = [Mark(*span) for word in words or () for span in word.spans]
    for score in scores:
        marks += _read_spans(score)
    return format_html("{}", render_marked(text, marks)) if marks else SafeString("")


def _read_spans(score: StepScore) -> list[Mark]:
    """A scorer's stretches, [[start, end]] or [[start, end, words]]; what is none is left out."""
    found = []
    spans = score.details.get("spans", ()) if isinstance(score.details, dict) else ()
    for span in spans if isinstance(spans, list) else ():
        if isinstance(span, list) and len(span) >= 2 and all(type(place) is int and place >= 0 for place in span[:2]):
            label = str(span[2]) if len(span) > 2 else f"{score.scorer}: not supported"
            found.append(Mark(span[0], span[1], label[:60]))
    return found
