"""How pages say times, shares and other people's text."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from django import template
from django.contrib.humanize.templatetags.humanize import naturaltime
from django.template import Context
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps.console.rendering import allowance_of, link_to_part, visible
from apps.feedback.models import Review

register = template.Library()

SHOWN = 700
SLACK = 200
MOST = 64_000

# what the audit says, where "kind" alone reads badly
SUBJECT_PAGES = {
    "task": "task",
    "review": "review",
    "trainingrun": "run",
    "adapter": "adapter",
    "proposal": "proposal",
    "webhook": "webhook",
    "benchmark": "benchmark",
    "course": "course",
}


register.filter("visible", visible)


@register.inclusion_tag("console/_words.html", takes_context=True)
def words(context: Context, text: str, shown: int = SHOWN) -> Mapping[str, Any]:
    """Someone's text: capped, with the rest behind "show more", which needs no script, or, where the page has shown
    enough, behind a link to the part of the page that shows it."""
    if len(text) <= shown + SLACK:
        return {"head": text, "rest": "", "more": 0, "cut": 0}
    end = text.rfind("\n", shown - SLACK, shown) + 1 or text.rfind(" ", shown - SLACK, shown) + 1 or shown
    request = context.get("request")
    share = allowance_of(request).take(len(text))
    if not share.is_shown:
        return {"head": text[:end], "more": len(text) - end, "link": link_to_part(request, share.part)}
    return {"head": text[:end], "rest": text[end:MOST], "more": len(text) - end, "cut": max(0, len(text) - MOST)}


@register.filter
def first_line(text: str, length: int = 110) -> str:
    """One line of a prompt, for lists."""
    line = " ".join(text[: length * 4].split())
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


@register.filter
def moment(at: datetime | None) -> SafeString | str:
    """A time as people say it, with the exact one to point at."""
    if at is None:
        return "–"
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), say_exactly(at), naturaltime(at))


@register.filter
def say_exactly(at: datetime) -> str:
    """`3 June 2026, 14:05:09 CEST (Europe/Zurich)`: the second, in the viewer's zone and named after it."""
    local = timezone.localtime(at)
    zone = timezone.get_current_timezone_name()
    short = local.tzname() or ""
    named = f"{short} ({zone})" if short.isalpha() and short != zone else zone
    return f"{date_format(local, 'j F Y')}, {local:%H:%M:%S} {named}"


@register.filter
def share(value: float | None) -> str:
    """A number in [0, 1] as a percentage."""
    return "–" if value is None else f"{100 * value:.1f}\u00a0%"


@register.filter
def score(value: float | None) -> str:
    """A score in [0, 1]."""
    return "–" if value is None else f"{value:.2f}"


@register.filter
def number(value: float | None) -> str:
    """A figure with as many digits as help: 0.000123 as 1.23e-04, 12345.678 as 12,346."""
    if value is None:
        return "–"
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if size < 0.001 else f"{value:.4g}"


@register.filter
def unlocalized(value: float | None) -> str:
    """A number for programs (charts, meters); "" where there is none."""
    return "" if value is None else repr(value)


@register.filter
def clock(at: datetime | None) -> SafeString | str:
    """A time of today, as one needs it to plan the next minutes."""
    if at is None:
        return "–"
    local = timezone.localtime(at)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', at.isoformat(), say_exactly(at), f"{local:%H:%M} {local.tzname()}"
    )


@register.filter
def holder(review: Review) -> str:
    """Who has a review open just now; "" when nobody does or the lease has run out."""
    if review.claimed_by is None or review.lease_until is None or review.lease_until < timezone.now():
        return ""
    return review.claimed_by.username


@register.filter
def points(value: float | None) -> str:
    """A difference in percentage points, signed."""
    return "–" if value is None else f"{value:+.1f}".replace("-", "−")


@register.filter
def sentence(kind: str) -> str:
    """`task.in_review` as "Task in review"."""
    return str(kind).replace(".", " ").replace("_", " ").capitalize()


@register.filter
def scorer(name: str) -> str:
    """A scorer's name as people write it."""
    return "PRM" if name == "prm" else sentence(name)


@register.filter
def who(handle: str) -> str:
    """`user:alice` as "alice"; agents say that they are one."""
    kind, _, name = handle.partition(":")
    return {"user": name, "agent": f"{name} (agent)"}.get(kind, handle)


@register.filter
def facts(payload: object) -> list[tuple[str, str]]:
    """What an object says, as pairs a person can read: nested names are joined, lists are counted or spelled out."""
    return list(_flatten("", payload))[:40]


def _flatten(name: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and {"from", "to"} <= set(value) and not name:
        yield "", f"{value['from']} → {value['to']}"
        yield from _flatten(name, {key: inner for key, inner in value.items() if key not in {"from", "to"}})
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flatten(f"{name} {key}".strip().replace("_", " "), inner)
    elif isinstance(value, list | tuple):
        short = len(value) <= 8 and all(not isinstance(item, Mapping | list | tuple) for item in value)
        yield name, ", ".join(str(item) for item in value) if short else f"{len(value)} entries"
    elif isinstance(value, float):
        yield name, number(value)
    elif value not in (None, ""):
        yield name, {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


@register.filter
def get(mapping: Mapping[str, Any] | None, key: str) -> Any:
    return mapping.get(key) if mapping else None


@register.filter
def subject_page(subject_type: str) -> str:
    """Name of the page about a subject of the audit; "" where there is none."""
    return SUBJECT_PAGES.get(subject_type, "")


@register.simple_tag(takes_context=True)
def here(context: Mapping[str, Any], *names: str) -> SafeString:
    """Marks the navigation entry of the page one is on."""
    match = context["request"].resolver_match
    return SafeString('aria-current="page"' if match is not None and match.url_name in names else "")


@register.simple_tag(takes_context=True)
def live(context: Mapping[str, Any], fragment: str, *kinds: str) -> SafeString:
    """Attributes of an element that shows itself anew when something of these kinds happens.

    The element's id must be the fragment's name. `task:12` listens to one task, `task` to all of the project's.
    """
    request = context["request"]
    query = request.GET.copy()
    query["fragment"] = fragment
    return format_html(
        'id="{}" data-live="{}" hx-get="{}?{}" hx-trigger="live" hx-swap="outerMorph" hx-nonce="{}"',
        fragment,
        " ".join(kinds),
        request.path,
        query.urlencode(),
        request.csp_nonce,
    )
