"""Long polls: an answer that may be held back until a row need not be waited for any more."""

from collections.abc import Awaitable, Callable, Hashable
from functools import wraps
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from apps.base.waiting import RowWaiter

MAX_WAIT_S = 30
View = Callable[..., HttpResponse]


def hold_back(response: Response, thing: Hashable, wait_s: int) -> Response:
    """Let `answer_in_time` wait for this before the answer is sent."""
    response.wait_for = thing, wait_s  # type: ignore[attr-defined]
    return response


def answer_in_time(view: View, current_board: Callable[[], RowWaiter]) -> Callable[..., Awaitable[HttpResponse]]:
    """Ask the view, wait where its answer says so, and ask again: rights are checked before and after.

    No database connection is held meanwhile.
    """

    @csrf_exempt
    @wraps(view)
    async def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        ask = sync_to_async(view)
        response = await ask(request, *args, **kwargs)
        thing, wait_s = getattr(response, "wait_for", (None, 0))
        if wait_s:
            await sync_to_async(close_old_connections)()
            await current_board().wait(thing, timeout_s=wait_s)
            response = await ask(request, *args, **kwargs)
        return response

    return answer


def read_wait(text: str | None, *, default: int = 0) -> int:
    """Raises ValidationError where it is no whole number of seconds within the limit."""
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 4 and int(text) <= MAX_WAIT_S):
        raise ValidationError({"wait": [f"wanted a whole number of seconds, 0 to {MAX_WAIT_S}, found {text[:40]!r}"]})
    return int(text)
