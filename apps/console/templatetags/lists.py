"""What every list has above and beside its rows: heads that order it, and its filters."""

from collections.abc import Mapping
from typing import Any

from django import template

from apps.finding.lists import SORT, Listing

register = template.Library()


@register.inclusion_tag("console/_sort_head.html", takes_context=True)
def sort_head(context: Mapping[str, Any], name: str, label: str, css: str = "") -> dict[str, Any]:
    """A column's head that orders the list by it: downwards first, then the other way round."""
    listing: Listing = context["listing"]
    order = type(listing.filters).read_order(listing.sort) if SORT not in listing.errors else None
    now = ""
    if order is not None and order.path == listing.filters.SORTS[name]:
        now = "descending" if order.is_descending else "ascending"
    query = context["request"].GET.copy()
    for word in ("after", "fragment"):
        query.pop(word, None)
    query[SORT] = name if now == "descending" else f"-{name}"
    return {"label": label, "css": css, "now": now, "query": query.urlencode()}


@register.simple_tag
def filter_input(field: Any, known: Mapping[str, Any] | None = None) -> str:
    """A filter's field; what is known for it is offered while one types."""
    offered = {"list": f"known-{field.name}", "autocomplete": "off"} if field.name in (known or {}) else {}
    widget: str = field.as_widget(attrs=offered)
    return widget
