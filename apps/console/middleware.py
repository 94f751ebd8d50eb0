"""Before every page: who may see it at all yet, and the viewer's own time zone and theme."""

import zoneinfo
from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.deprecation import MiddlewareMixin

from apps.accounts.models import User
from apps.accounts.second_factor import lacks_required_factor
from apps.console.fresh_proof import ask_for_proof
from apps.console.models import Preference, Theme

ZONE_COOKIE = "tentalis_zone"
THEME_COOKIE = "tentalis_theme"


@cache
def list_zones() -> frozenset[str]:
    """Every IANA time zone this installation knows."""
    return frozenset(zoneinfo.available_timezones())


def find_preference(request: HttpRequest) -> Preference:
    """What the viewer set, not saved where they never did; for who is nobody, what their browser remembers."""
    user: Any = request.user
    found = Preference.objects.filter(pk=user.pk).first() if user.is_authenticated else None
    theme = request.COOKIES.get(THEME_COOKIE, "")
    return found or Preference(user_id=user.pk, theme=theme if theme in Theme.values else Theme.SYSTEM)


FIRST_OF_ALL = frozenset(
    {"signing-in", "password", "sessions-end", "app-set-up", "app-begin", "recovery-codes", "theme"}
)
FIRST_OF_ALL |= {"sign-in", "second-step", "sign-out"}
"""Pages for who must have a second factor and has none."""


class ProofMiddleware(MiddlewareMixin):
    """Before a page is asked: a second factor where one is wanted, a fresh proof where what is sent takes one.

    The REST API, which has no pages to send anybody to, says both by itself.
    """

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        match, user = request.resolver_match, request.user
        if not isinstance(user, User) or match is None or not set(match.app_names) & {"console", "admin"}:
            return None
        is_first = match.app_name == "console" and match.url_name in FIRST_OF_ALL
        if not is_first and lacks_required_factor(user):
            return redirect("console:signing-in")
        return ask_for_proof(request)


class PreferenceMiddleware(MiddlewareMixin):
    """Gives the request its `preference` and shows it in the viewer's time zone."""

    def process_request(self, request: HttpRequest) -> None:
        preference = find_preference(request)
        request.preference = preference  # type: ignore[attr-defined]
        zone = preference.time_zone or request.COOKIES.get(ZONE_COOKIE, "").replace("%2F", "/")
        if zone in list_zones():
            timezone.activate(zoneinfo.ZoneInfo(zone))
        else:
            timezone.deactivate()

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        timezone.deactivate()
        return response
