"""What pages offer beside their rows: saved views, the filter at work, the first steps."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from django import template
from django.http import QueryDict
from django.urls import NoReverseMatch, reverse

from apps.accounts.rights import Right
from apps.console.glossary import Term, find_terms
from apps.console.keys import write_keys
from apps.console.models import TOUR_DISMISSED, SavedView
from apps.console.preferences import NOT_KEPT, find_dashboard_views, find_views
from apps.console.selectors.tour import Tour, find_tour

register = template.Library()
TOUR_PAGES: Mapping[str, str] = {
    "project": "",
    **dict.fromkeys(("connect", "connect-token", "connect-server", "provider-new", "worker-new"), "connect"),
    **dict.fromkeys(("task-import", "task-new", "task-from-sessions", "task-list"), "task-import"),
    "who-judges": "who-judges",
    "review-list": "review-list",
}
"""Pages that show the first steps -> the step they belong to, by the name of its page; "": the way as a whole."""


@register.simple_tag(takes_context=True)
def find_terms_here(context: Mapping[str, Any]) -> list[Term]:
    """The terms that are seen on the page one is on."""
    return find_terms(context["request"].resolver_match.url_name)


@register.simple_tag(takes_context=True)
def find_saved_views(context: Mapping[str, Any]) -> list[SavedView]:
    """The saved views of the list one is on."""
    scene, match = context["scene"], context["request"].resolver_match
    return find_views(scene.project, scene.user, match.url_name)


@register.simple_tag(takes_context=True)
def find_all_views(context: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(name, address) of the team's saved views and one's own, of every list."""
    scene = context["scene"]
    found = []
    for view in find_dashboard_views(scene.project, scene.user):
        with suppress(NoReverseMatch):  # of a list that is there no more
            path = reverse(f"console:{view.page}", args=(scene.project.slug,))
            found.append((view.name, f"{path}?{view.query}" if view.query else path))
    return found


@register.simple_tag(takes_context=True)
def filter_now(context: Mapping[str, Any]) -> str:
    """The filter one looks through, without cursor and fragment; "" for none."""
    query: QueryDict = context["request"].GET.copy()
    for word in NOT_KEPT:
        query.pop(word, None)
    return query.urlencode()


@register.simple_tag(takes_context=True)
def find_first_steps(context: Mapping[str, Any]) -> Tour | None:
    """The first steps, on the dashboard and the pages of the steps, for who can take them and has neither finished nor
    dismissed them."""
    scene, match = context["scene"], context["request"].resolver_match
    page = match.url_name if match is not None else ""
    is_dismissed = context["request"].preference.tour_step == TOUR_DISMISSED
    if page not in TOUR_PAGES or is_dismissed or not {Right.TASKS_WRITE, Right.REVIEWS_WRITE} <= scene.rights:
        return None
    tour = find_tour(scene.project, scene.user)
    return replace(tour, page=TOUR_PAGES[page]) if tour.now is not None else None


@register.simple_tag(takes_context=True)
def key_table(context: Mapping[str, Any], page: str) -> str:
    """The page's keys as the reader chose them, for its script."""
    return write_keys(page, context["request"].preference.keys)
