"""What every request gets."""

import re
import uuid
from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from apps.base.trouble import answer_trouble, holds_nul, is_database_trouble, refuse_nul

HEADER = "X-Request-Id"
READABLE = re.compile(r"[A-Za-z0-9._-]{1,64}")


PERMISSIONS = "camera=(), microphone=(), geolocation=(), payment=(), usb=(), browsing-topics=()"
PRIVATE_PATHS = ("/api/v1/", "/bridge/")


class DatabaseTroubleMiddleware(MiddlewareMixin):
    """Says 503 where a view met trouble of the database, and 400 where the database cannot hold a text; what a
    middleware meets comes to `show_server_error`."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if holds_nul(error):
            return refuse_nul(request)
        return answer_trouble(request, error) if is_database_trouble(error) else None


class RequestIdMiddleware:
    """Gives each request an id, the caller's own if it is readable, and returns it with the answer.

    Answers say too what browsers may do with them; those of the API are nobody else's to keep.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        given = request.headers.get(HEADER, "")
        request.request_id = given if READABLE.fullmatch(given) else uuid.uuid4().hex  # type: ignore[attr-defined]
        answer = self.get_response(request)
        if isinstance(answer, HttpResponseBase):
            return self._mark(request, answer)
        return self._mark_later(request, answer)

    async def _mark_later(self, request: HttpRequest, answer: Awaitable[HttpResponseBase]) -> HttpResponseBase:
        return self._mark(request, await answer)

    @staticmethod
    def _mark(request: HttpRequest, answer: HttpResponseBase) -> HttpResponseBase:
        answer[HEADER] = request.request_id  # type: ignore[attr-defined]
        answer.setdefault("Permissions-Policy", PERMISSIONS)
        answer.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        if request.path.startswith(PRIVATE_PATHS):
            answer.setdefault("Cache-Control", "private, no-cache" if "ETag" in answer else "no-store")
        return answer
