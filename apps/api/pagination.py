"""Lists by opaque cursor: the next page starts behind the last row seen, so inserts move nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.finding.bounds import within
from apps.finding.lists import SORT, ListFilters
from apps.finding.pages import Order, PlaceError, read_pk, turn_page, write_place
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
        order = Order(is_descending=not getattr(view, "oldest_first", False))
        if text := request.query_params.get(SORT):
            order = find_filters(view).read_order(text)
        self.limit = read_limit(request.query_params.get("limit"))
        cursor = request.query_params.get("cursor", "")
        with within(), _as_cursor():
            page = turn_page(queryset, order, place=cursor, limit=self.limit)
        self.next_cursor = page.next_place or None
        return list(page.rows)

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
            *describe_orders(view),
        ]


def read_limit(text: str | None) -> int:
    """Raises ValidationError where it is no whole number from 1 to 200."""
    if text is None:
        return DEFAULT_LIMIT
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MAX_LIMIT):
        raise ValidationError({"limit": [f"wanted a whole number from 1 to {MAX_LIMIT}, found {text[:40]!r}"]})
    return int(text)


def write_cursor(last: int) -> str:
    return write_place(str(last))


def read_cursor(text: str) -> int:
    """The id in a cursor of a list without orders. Raises ValidationError for one we did not write."""
    with _as_cursor():
        return read_pk(text)


@contextmanager
def _as_cursor() -> Iterator[None]:
    try:
        yield
    except PlaceError as error:
        raise ValidationError({"cursor": [str(error)]}) from None


def find_filters(view: Any) -> type[ListFilters]:
    """The filters of a view's list, which say its orders too; without any of its own there are none."""
    found = getattr(view, "filterset_class", None)
    return found if isinstance(found, type) and issubclass(found, ListFilters) else ListFilters


def describe_orders(view: Any) -> list[dict[str, Any]]:
    """The parameter `sort`, where a list has orders."""
    if not (sorts := find_filters(view).SORTS):
        return []
    return [
        {
            "name": SORT,
            "in": "query",
            "required": False,
            "description": "Order; with `-` the other way round. Rows without a value come last.",
            "schema": {"type": "string", "enum": [sign + name for name in sorts for sign in ("", "-")]},
        }
    ]
