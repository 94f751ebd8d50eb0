"""The number of waiting proposals beside the menu's entry."""

from collections.abc import Mapping
from typing import Any

from django import template

from apps.accounts.rights import Right
from apps.console.selectors.proposals import MOST_COUNTED, count_waiting

register = template.Library()


@register.simple_tag(takes_context=True)
def waiting_proposals(context: Mapping[str, Any]) -> str:
    """How many wait, as the menu says it; "" for none, or for who does not see them."""
    scene = context["scene"]
    count = count_waiting(scene.project) if scene.may(Right.REVIEWS_READ) else 0
    return f"{MOST_COUNTED}+" if count > MOST_COUNTED else str(count or "")
