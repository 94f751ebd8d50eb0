"""What no view caught: trouble of the database that goes away by itself, a request that cannot be read or kept, a
fault.

Trouble of the database is no free connection, a full disk, a restart, a time limit.
"""

import logging
import sys
from http import HTTPStatus
from typing import Any

from django.core.exceptions import DisallowedHost
from django.db.utils import DataError, InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

logger = logging.getLogger(__name__)

RETRY_AFTER_S = 3
STATUS = 503
CODE = "database_unavailable"
DETAIL = "The database cannot answer at the moment; nothing was changed. Try again in a few seconds."
NUL = "NUL (0x00)"
"""What psycopg says of it."""
NUL_CODE = "bad_input"
NUL_DETAIL = "A text holds a NUL character, which nothing here has."
FAULT_CODE = "internal"
FAULT_DETAIL = "Something broke on our side; the request id finds it in our logs."
MEDIA_TYPE = "application/problem+json"
PROGRAMS = ("/api/", "/bridge/")
"""Where programs ask: they are answered with problem details."""


def is_database_trouble(error: BaseException | None) -> bool:
    """Whether trying the same again may help: nothing is wrong with what was asked."""
    return isinstance(error, OperationalError | InterfaceError)


def holds_nul(error: BaseException | None) -> bool:
    """Whether a text held a NUL character, which no text in Postgres does: wrong is what was asked."""
    return isinstance(error, DataError) and NUL in str(error)


def refuse_nul(request: HttpRequest) -> HttpResponse:
    """400: problem details for programs, a page for people."""
    return _refuse(request, NUL_CODE, NUL_DETAIL)


def answer_trouble(request: HttpRequest, error: BaseException) -> HttpResponse:
    """503 with Retry-After: problem details for programs, a page for people. Asks the database nothing."""
    name = type(error.__cause__ or error).__name__
    logger.warning("request %s: the database cannot answer (%s)", getattr(request, "request_id", "?"), name)
    if request.path.startswith(PROGRAMS):
        answer = _say_problem(request, STATUS, CODE, DETAIL)
    else:
        answer = render(None, "503.html", status=STATUS)  # without a request: its user would be read
    answer["Retry-After"] = str(RETRY_AFTER_S)
    answer["Cache-Control"] = "no-store"
    return answer


def show_bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """What Django refuses before any view: a Host header that is none or not ours, fields without number."""
    if isinstance(exception, DisallowedHost):
        return _refuse(request, "bad_host", "The Host header names no address of this server.")
    return _refuse(request, "bad_request", "The request cannot be read.")


def show_server_error(request: HttpRequest) -> HttpResponse:
    """What nobody caught, in a middleware too: trouble of the database as such, else the page for errors."""
    error = sys.exc_info()[1]
    if error is not None and is_database_trouble(error):
        return answer_trouble(request, error)
    if request.path.startswith(PROGRAMS):
        return _say_problem(request, 500, FAULT_CODE, FAULT_DETAIL)
    return render(None, "500.html", status=500)  # without a request: its user would be read


def describe_problem(request: Any, *, status: int, code: str, detail: str) -> dict[str, Any]:
    """The members every problem has (RFC 9457), and the request's id."""
    return {
        "type": f"urn:tentalis:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "request_id": getattr(request, "request_id", ""),
    }


def _refuse(request: HttpRequest, code: str, detail: str) -> HttpResponse:
    if request.path.startswith(PROGRAMS):
        return _say_problem(request, 400, code, detail)
    return render(None, "400.html", status=400)  # without a request: its user would be read


def _say_problem(request: HttpRequest, status: int, code: str, detail: str) -> HttpResponse:
    said = describe_problem(request, status=status, code=code, detail=detail)
    return JsonResponse(said, status=status, content_type=MEDIA_TYPE)
