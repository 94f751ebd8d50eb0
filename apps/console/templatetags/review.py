"""How the pages about reviews show what somebody wrote, and what was marked in it."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from django import template
from django.template import Context, Template
from django.template.loader import get_template, render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language, ngettext
from django.utils.translation import gettext as _

from apps.console.rendering import (
    MOST,
    Mark,
    Stamp,
    allowance_of,
    has_markup,
    link_to_part,
    render_marked,
    render_rich,
    slot,
    visible,
)
from apps.console.review_forms import AttemptFields, PlaceFields, PlaceForm, Radio, StepPlace
from apps.console.selectors.screenshots import Screenshot
from apps.console.templatetags.console import number
from apps.console.templatetags.console import score as say_score
from apps.console.templatetags.console import scorer as name_scorer
from apps.feedback.models import StepFeedback
from apps.scoring.models import StepScore
from apps.tasks.models import Step

register = template.Library()

HEAD = 200
"""Characters of a text that another part of the page shows."""


@register.simple_tag(takes_context=True)
def rich(context: Context, text: str, markable: str = "") -> SafeString:
    """A text as written, and as markdown where it has markup; the reader switches between the two. Where the page has
    shown enough, its beginning and a link to the part of the page that shows it.

    Args:
        markable: what the page calls the place; its characters can be marked by selecting them, where the shown
            characters are the text's own.
    """
    request = context.get("request")
    share = allowance_of(request).take(len(text), has_markup=has_markup(text))
    if not share.is_shown:
        head = {"head": text[:HEAD], "more": len(text) - HEAD, "link": link_to_part(request, share.part)}
        return render_to_string("console/_words.html", head)
    made = render_rich(text, may_mark_up=share.may_mark_up)
    is_plain = len(text) <= MOST and "\x1b" not in text and "\r" not in text
    return format_html(
        '<div class="words rich{}" dir="auto"><div class="as-text"{}>{}</div>{}{}</div>',
        " has-markdown" if made.as_markdown else "",
        format_html(' data-markable="{}"', markable) if markable and is_plain else "",
        made.as_text,
        format_html('<div class="as-markdown">{}</div>', made.as_markdown) if made.as_markdown else "",
        format_html('<p class="muted small">{}</p>', _say_cut(made.cut)) if made.cut else "",
    )


def _say_cut(cut: int) -> str:
    return ngettext(
        "%(more)s more character is not shown here; the API has the whole text.",
        "%(more)s more characters are not shown here; the API has the whole text.",
        cut,
    ) % {"more": cut}


@register.simple_tag(takes_context=True)
def step_words(context: Context, step: Step, markable: str = "") -> SafeString:
    """What a step says and, of a tool call, what came back."""
    parts = [rich(context, step.text, markable), tool_result(context, step)]
    if step.kind != "step":
        parts.insert(0, format_html('<p class="kind">{}</p>', _name_kind(step)))
    return SafeString("".join(parts))


@register.simple_tag(takes_context=True)
def tool_result(context: Context, step: Step) -> SafeString:
    """What a step's tool call was done on and what came back; "" where neither is known."""
    shown = _draw_screenshot(context, step)
    if not step.tool_result:
        return shown
    result = rich(context, step.tool_result)
    return format_html('{}<div class="box mono"><p class="kind">{}</p>{}</div>', shown, _("Tool result"), result)


def _draw_screenshot(context: Context, step: Step) -> SafeString:
    """Of the page's `screenshots`, by step; "" where it has none of this one."""
    shot: Screenshot | None = (context.get("screenshots") or {}).get(step.pk)
    if shot is None:
        return SafeString("")
    if not shot.is_kept:
        return format_html('<p class="muted small">{}</p>', _("The screenshot of this call was deleted."))
    slug = context["scene"].project.slug
    address = reverse("console:screenshot", args=(slug, shot.task_id, shot.index, shot.sha256))
    size = {"width": shot.width, "height": shot.height}
    image = format_html(
        '<img src="{}" width="{width}" height="{height}" loading="lazy" alt="{}">', address, shot.words, **size
    )
    mark = SafeString("")
    if shot.mark is not None:
        circles = [format_html('<circle class="{}" cx="{}" cy="{}" r="{}"/>', *one) for one in _draw_mark(*shot.mark)]
        drawn = SafeString("".join(circles))
        mark = format_html('<svg viewBox="0 0 {width} {height}" aria-hidden="true">{}</svg>', drawn, **size)
    return format_html('<p class="screenshot"><a href="{}">{}{}</a></p>', address, image, mark)


def _draw_mark(x: float, y: float) -> list[tuple[str, float, float, int]]:
    """A ring around the place, seen on dark and on light, and a dot in it."""
    return [("halo", x, y, 13), ("ring", x, y, 13), ("dot", x, y, 3)]


def _name_kind(step: Step) -> str:
    if step.kind == "call":
        return format_html(_("Calls {tool}"), tool=visible(step.tool_name or _("a tool")))
    return _("Answer") if step.kind == "answer" else _("Outside every step")


@register.simple_tag(takes_context=True)
def judged_steps(context: Context, answer: AttemptFields) -> SafeString:
    """An answer's steps, and where each is judged."""
    found: Any = get_template("console/_judged_step.html")
    template: Template = found.template  # which stays the same one until its file changes
    stamp = make_step_stamp(template, get_language() or "")
    return SafeString("".join(_write_step(context, answer, place, template, stamp) for place in answer.steps))


@lru_cache(maxsize=4)
def make_step_stamp(template: Template, language: str) -> Stamp:
    """A step without its words, in one language."""
    named = ("letter", "number", "index", "label", "words", "said")
    form = PlaceForm(prefix=slot("place"), initial={kind: slot(kind) for kind in PlaceForm.base_fields})
    wrong = Radio(name=slot("wrong"), value=slot("value"), id=slot("wrong_id"), checked=slot("checked"))
    fields = PlaceFields(**{field.name: form[field.name] for field in form}, wrong=wrong)
    return Stamp(template.render(Context({name: slot(name) for name in named} | {"fields": fields})))


def _write_step(
    context: Context, answer: AttemptFields, place: StepPlace, template: Template, stamp: Stamp
) -> SafeString:
    values = {
        "letter": answer.letter,
        "number": place.step.index + 1,
        "index": place.step.index,
        "label": place.label,
        "words": step_words(context, place.step, f"id_{place.name}-spans"),
        "said": _write_scores(place),
    }
    if place.refused is not None:
        return template.render(Context(values | {"fields": place.refused}))
    wrong = place.wrong
    return stamp.write(
        **values,
        **place.typed,
        place=place.name,
        wrong=wrong.name,
        value=wrong.value,
        wrong_id=wrong.id,
        checked=wrong.checked,
    )


def _write_scores(place: StepPlace) -> SafeString:
    """What the scorers said of a step; "" where the reviewer may not see it yet."""
    if not place.scores:
        return SafeString("")
    doubtful = marked(place.step.text, (), place.scores)
    quoted = format_html('<div class="words quote" dir="auto">{}</div>', doubtful) if doubtful else ""
    return format_html("{}{}", quoted, scores_of(place.scores))


@register.simple_tag
def scores_of(scores: Sequence[StepScore], weights: Mapping[str, float] | None = None) -> SafeString:
    """What scorers said of one attempt or step, and how much each counts where `weights` says so."""
    found: Any = get_template("console/_score.html")
    language = get_language() or ""
    written = (_write_score(score, (weights or {}).get(score.scorer), found.template, language) for score in scores)
    return SafeString(f'<ul class="scores">{"".join(written)}</ul>')


def _write_score(score: StepScore, weight: float | None, template: Template, language: str) -> SafeString:
    values = {
        "scorer": name_scorer(score.scorer),
        "weight": None if weight is None else number(weight),
        "score": None if score.score is None else say_score(score.score),
        "value": score.score,
        "reason": visible(score.reason) if score.reason else None,
        "spread": None if score.spread is None else say_score(score.spread),
    }
    said = frozenset(name for name, value in values.items() if value is not None)
    return make_score_stamp(template, language, said).write(**values)


@lru_cache(maxsize=64)
def make_score_stamp(template: Template, language: str, fields: frozenset[str]) -> Stamp:
    """A scorer's word that says these parts, without them, in one language."""
    return Stamp(template.render(Context({name: slot(name) for name in fields})))


@register.simple_tag
def marked(text: str, feedback: Sequence[StepFeedback] | None, scores: Sequence[StepScore] = ()) -> SafeString:
    """A step's text with what reviewers marked in it and what scorers hold for made up."""
    marks = [Mark(*span) for word in feedback or () for span in word.spans]
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
