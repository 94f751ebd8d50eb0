"""The viewer's own console: their time zone, language and theme, from what they set or else what their browser says."""

import zoneinfo
from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone, translation
from django.utils.deprecation import MiddlewareMixin

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


class PreferenceMiddleware(MiddlewareMixin):
    """Gives the request its `preference` and shows it in the viewer's time zone and language."""

    def process_request(self, request: HttpRequest) -> None:
        preference = find_preference(request)
        request.preference = preference  # type: ignore[attr-defined]
        zone = preference.time_zone or request.COOKIES.get(ZONE_COOKIE, "").replace("%2F", "/")
        if zone in list_zones():
            timezone.activate(zoneinfo.ZoneInfo(zone))
        else:
            timezone.deactivate()
        if preference.language:
            translation.activate(preference.language)
            request.LANGUAGE_CODE = preference.language

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        timezone.deactivate()
        return response
