"""Pages of rows, newest first: the next one begins below the last id seen, so that new rows move nothing."""

from typing import TypeVar

from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)


def take_page(rows: QuerySet[Row], *, before: int | None, size: int) -> tuple[list[Row], int | None]:
    """At most `size` rows with ids below `before` (None: the newest), and the id to go on below; None at the end."""
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = list(rows.order_by("-pk")[: size + 1])
    return found[:size], found[size - 1].pk if len(found) > size else None
