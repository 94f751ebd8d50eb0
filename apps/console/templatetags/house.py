"""What lists offer beside their rows: saved views, and the way to take the rows home."""

from collections.abc import Mapping
from typing import Any

from django import template
from django.http import QueryDict

from apps.console.models import SavedView
from apps.console.preferences import NOT_KEPT, find_views

register = template.Library()


@register.simple_tag(takes_context=True)
def find_saved_views(context: Mapping[str, Any]) -> list[SavedView]:
    """The saved views of the list one is on."""
    scene, match = context["scene"], context["request"].resolver_match
    return find_views(scene.project, scene.user, match.url_name)


@register.simple_tag(takes_context=True)
def filter_now(context: Mapping[str, Any]) -> str:
    """The filter one looks through, without cursor and fragment; "" for none."""
    query: QueryDict = context["request"].GET.copy()
    for word in NOT_KEPT:
        query.pop(word, None)
    return query.urlencode()
