"""Downloads that are made while they are sent."""

from collections.abc import AsyncIterator, Iterator
from typing import TypeVar

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Model, QuerySet
from django.http import HttpRequest, StreamingHttpResponse

CHUNK_BYTES = 64 * 1024
Row = TypeVar("Row", bound=Model)


def iterate_pages(rows: "QuerySet[Row]", size: int) -> Iterator[list[Row]]:
    """By ascending id in bounded queries, so that no transaction stays open while a slow reader reads."""
    last = 0
    while page := list(rows.filter(pk__gt=last).order_by("pk")[:size]):
        yield page
        last = page[-1].pk


def stream(request: HttpRequest, parts: Iterator[bytes], *, media_type: str, filename: str) -> StreamingHttpResponse:
    """Parts as they come. Under ASGI they are drawn in the thread of the database, small ones together."""
    is_async = isinstance(request, ASGIRequest)
    response = StreamingHttpResponse(_draw(parts) if is_async else parts, content_type=media_type)
    response["Content-Disposition"] = f'attachment; filename="{filename}"'
    response["X-Accel-Buffering"] = "no"
    return response


async def _draw(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    draw = sync_to_async(lambda: _take(parts))
    while chunk := await draw():
        yield chunk


def _take(parts: Iterator[bytes]) -> bytes:
    """The next parts, until they are worth sending; b"" at the end."""
    taken, size = [], 0
    for part in parts:
        taken.append(part)
        size += len(part)
        if size >= CHUNK_BYTES:
            break
    return b"".join(taken)
