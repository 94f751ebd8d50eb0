"""What keeps a look through a big table short: a time it may take, and the ids that a time means."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.db import OperationalError, connection, transaction
from django.db.models import QuerySet
from psycopg.errors import QueryCanceled

from apps.base.errors import BadInputError

LIST_S = 5.0
_SET = "SELECT current_setting('statement_timeout'), set_config('statement_timeout', %s, true)"


class TooBroadError(BadInputError):
    """What was asked for cannot be found in the time there is."""


@contextmanager
def within(seconds: float = LIST_S) -> Iterator[None]:
    """Let no statement inside take longer.

    Raises:
        TooBroadError: one did.
    """
    is_nested = connection.in_atomic_block
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_SET, [str(int(1000 * seconds))])
            was = cursor.fetchone()[0]
            yield
            if is_nested:
                cursor.execute(_SET, [was])
    except OperationalError as error:
        if not isinstance(error.__cause__, QueryCanceled):
            raise
        raise TooBroadError(
            f"this looks through more than {seconds:g} seconds allow: add a worker, a state, days or more words"
        ) from None


def find_first_since(rows: QuerySet[Any], at: datetime, *, path: str = "created_at") -> int:
    """The lowest id from a time on, by halving: ids rise with time, but for transactions that ran side by side."""
    low, high = 0, (rows.order_by("-pk").values_list("pk", flat=True).first() or 0) + 1
    while low < high:
        middle = (low + high) // 2
        row = rows.filter(pk__gte=middle).order_by("pk").values_list("pk", path).first()
        if row is None or row[1] >= at:
            high = middle
        else:
            low = row[0] + 1
    return low
