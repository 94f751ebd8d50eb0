"""Pages of a list in any of its orders: the next one starts behind the last row seen, so inserts move nothing."""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, QuerySet
from django.db.models.fields.tuple_lookups import Tuple, TupleGreaterThan, TupleLessThan
from django.utils.crypto import constant_time_compare, salted_hmac

from apps.base.errors import BadInputError


class PlaceError(BadInputError):
    """What was given as the place where a page ended is none."""


@dataclass(frozen=True)
class Order:
    """By which column, equal ones by id; rows without a value stand last either way."""

    path: str = "pk"
    is_descending: bool = True


NEWEST_FIRST = Order()


@dataclass(frozen=True)
class Page:
    """Rows, and the place at which the next page starts ("": no more)."""

    rows: Sequence[Any]
    next_place: str


def turn_page(rows: QuerySet[Any], order: Order = NEWEST_FIRST, *, place: str = "", limit: int) -> Page:
    """One page.

    With a value and without one are asked for apart, so that each stands on an index of (…, column, id).

    Args:
        place: `next_place` of the page before.
    Raises:
        PlaceError: a place that is none of this order's.
    """
    sign = "-" if order.is_descending else ""
    if order.path == "pk":
        if place:
            rows = rows.filter(**{"pk__lt" if order.is_descending else "pk__gt": read_pk(place)})
        found = list(rows.order_by(f"{sign}pk")[: limit + 1])
        return Page(found[:limit], write_place(str(found[limit - 1].pk)) if len(found) > limit else "")
    value, pk = _read_value(read_place(place), order) if place else (None, None)
    found = []
    if not place or value is not None:
        valued = rows.filter(**{f"{order.path}__isnull": False})
        if place:
            beyond = TupleLessThan if order.is_descending else TupleGreaterThan
            valued = valued.filter(beyond(Tuple(F(order.path), F("pk")), (value, pk)))
        found = list(valued.order_by(f"{sign}{order.path}", f"{sign}pk")[: limit + 1])
    if len(found) <= limit and rows.model._meta.get_field(order.path).null:
        rest = rows.filter(**{f"{order.path}__isnull": True})
        if place and value is None:
            rest = rest.filter(**{"pk__lt" if order.is_descending else "pk__gt": pk})
        found += rest.order_by(f"{sign}pk")[: limit + 1 - len(found)]
    return Page(found[:limit], _write_value(found[limit - 1], order) if len(found) > limit else "")


def write_place(payload: str) -> str:
    return base64.urlsafe_b64encode(f"{payload}.{_sign(payload)}".encode()).decode().rstrip("=")


def read_place(text: str) -> str:
    """Raises PlaceError for one we did not write."""
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        payload, _, signature = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii").rpartition(".")
        if constant_time_compare(signature, _sign(payload)):
            return payload
    except (UnicodeError, binascii.Error, ValueError):
        pass
    raise _refuse()


def read_pk(text: str) -> int:
    """The id in a place of a list in the order of ids."""
    payload = read_place(text)
    if not payload.isdigit():
        raise _refuse()
    return int(payload)


def _write_value(row: Any, order: Order) -> str:
    value = getattr(row, order.path)
    said = value.isoformat() if isinstance(value, datetime) else value
    return write_place(json.dumps([order.path, said, row.pk]))


def _read_value(payload: str, order: Order) -> tuple[Any, int]:
    """What the last row seen holds, and its id."""
    try:
        path, value, pk = json.loads(payload)
    except (TypeError, ValueError):
        raise _refuse() from None
    if path != order.path:
        raise _refuse()
    return datetime.fromisoformat(value) if isinstance(value, str) else value, pk


def _refuse() -> PlaceError:
    return PlaceError("wanted the place at which another page of this list ended, found something else")


def _sign(payload: str) -> str:
    return salted_hmac("apps.api.cursor", payload, algorithm="sha256").hexdigest()[:16]
