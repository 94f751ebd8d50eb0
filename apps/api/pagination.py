"""Lists by opaque cursor: the next page starts behind the last row seen, so inserts move nothing."""

import base64
import binascii
from typing import Any

from django.utils.crypto import constant_time_compare, salted_hmac
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from tentalis.limits import LIMITS

DEFAULT_LIMIT = 50
MAX_LIMIT = LIMITS.list_rows
LIMIT_HELP = f"Rows a page, 1 to {MAX_LIMIT}."
CURSOR_HELP = "`next_cursor` of the page before; absent: the first page."


class CursorPagination(BasePagination):
    """Keyset pages by primary key, newest first, or oldest first where the view says `oldest_first = True`."""

    limit = DEFAULT_LIMIT
    next_cursor: str | None = None

    def paginate_queryset(self, queryset: Any, request: Request, view: APIView | None = None) -> list[Any]:
        """One page. Raises ValidationError for a limit or cursor that cannot be."""
        oldest_first = getattr(view, "oldest_first", False)
        self.limit = read_limit(request.query_params.get("limit"))
        rows = queryset.order_by("pk" if oldest_first else "-pk")
        if text := request.query_params.get("cursor"):
            last = read_cursor(text)
            rows = rows.filter(pk__gt=last) if oldest_first else rows.filter(pk__lt=last)
        page = list(rows[: self.limit + 1])
        if len(page) > self.limit:
            page.pop()
            self.next_cursor = write_cursor(page[-1].pk)
        return page

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next_cursor": self.next_cursor})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["results", "next_cursor"],
            "properties": {
                "results": schema,
                "next_cursor": {
                    "type": ["string", "null"],
                    "description": "Where the next page starts; null: no more.",
                },
            },
        }

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        return [
            {
                "name": "limit",
                "in": "query",
                "required": False,
                "description": LIMIT_HELP,
                "schema": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
            },
            {
                "name": "cursor",
                "in": "query",
                "required": False,
                "description": CURSOR_HELP,
                "schema": {"type": "string"},
            },
        ]


def read_limit(text: str | None) -> int:
    """Raises ValidationError where it is no whole number from 1 to 200."""
    if text is None:
        return DEFAULT_LIMIT
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MAX_LIMIT):
        raise ValidationError({"limit": [f"wanted a whole number from 1 to {MAX_LIMIT}, found {text[:40]!r}"]})
    return int(text)


def write_cursor(last: int) -> str:
    payload = str(last)
    return base64.urlsafe_b64encode(f"{payload}.{_sign(payload)}".encode()).decode().rstrip("=")


def read_cursor(text: str) -> int:
    """Raises ValidationError for one we did not write."""
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        payload, _, signature = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii").partition(".")
        if constant_time_compare(signature, _sign(payload)):
            return int(payload)
    except (UnicodeError, binascii.Error, ValueError):
        pass
    raise ValidationError({"cursor": ["wanted the next_cursor of an earlier page, found something else"]})


def _sign(payload: str) -> str:
    return salted_hmac("apps.api.cursor", payload, algorithm="sha256").hexdigest()[:16]
