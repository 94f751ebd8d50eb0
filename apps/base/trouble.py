"""Trouble of the database that goes away by itself: no free connection, a full disk, a restart, a time limit."""

import logging
import sys

from django.db.utils import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

logger = logging.getLogger(__name__)

RETRY_AFTER_S = 3
STATUS = 503
CODE = "database_unavailable"
DETAIL = "The database cannot answer at the moment; nothing was changed. Try again in a few seconds."
MEDIA_TYPE = "application/problem+json"
PROGRAMS = ("/api/", "/bridge/")
"""Where programs ask: they are answered with problem details."""


def is_database_trouble(error: BaseException | None) -> bool:
    """Whether trying the same again may help: nothing is wrong with what was asked."""
    return isinstance(error, OperationalError | InterfaceError)


def answer_trouble(request: HttpRequest, error: BaseException) -> HttpResponse:
    """503 with Retry-After: problem details for programs, a page for people. Asks the database nothing."""
    logger.warning("request %s: the database cannot answer (%s)", getattr(request, "request_id", "?"), _name(error))
    if request.path.startswith(PROGRAMS):
        answer: HttpResponse = JsonResponse(
            {
                "type": f"urn:tentalis:problem:{CODE}",
                "title": "Service Unavailable",
                "status": STATUS,
                "detail": DETAIL,
                "code": CODE,
                "request_id": getattr(request, "request_id", ""),
            },
            status=STATUS,
            content_type=MEDIA_TYPE,
        )
    else:
        answer = render(None, "503.html", status=STATUS)  # without a request: its user would be read
    answer["Retry-After"] = str(RETRY_AFTER_S)
    answer["Cache-Control"] = "no-store"
    return answer


def show_server_error(request: HttpRequest) -> HttpResponse:
    """What nobody caught, in a middleware too: trouble of the database as such, else the page for errors."""
    error = sys.exc_info()[1]
    if error is not None and is_database_trouble(error):
        return answer_trouble(request, error)
    return render(None, "500.html", status=500)  # without a request: its user would be read


def _name(error: BaseException) -> str:
    return type(error.__cause__ or error).__name__
