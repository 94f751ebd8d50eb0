"""Many new rows at a time, by COPY: the ORM takes several times as long to write such a statement as Postgres to run
it."""

from collections.abc import Callable, Iterable
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from django.db import connection
from django.db.models import DateTimeField, JSONField, Model
from django.db.models.expressions import DatabaseDefault
from psycopg import sql

Row = TypeVar("Row", bound=Model)

_IDS = "SELECT nextval(pg_get_serial_sequence(%s, %s)) FROM generate_series(1, %s)"


class _Table(NamedTuple):
    """How a model's rows are copied in: first the values that Django prepares, then those that are as Postgres knows
    them, as one tuple."""

    prepared: tuple[Any, ...]
    read_plain: Callable[[Model], tuple[Any, ...]]
    statement: sql.Composable


def insert(rows: Iterable[Row]) -> list[Row]:
    """Write new rows of one model, which get their ids, in the running transaction: `bulk_create` where COPY will do.

    Every value is of its field's own type and no expression. What the first row leaves to the database's default, all
    do; the objects do not learn it.
    """
    if not (made := list(rows)):
        return made
    meta = type(made[0])._meta
    left = (one.attname for one in meta.concrete_fields if isinstance(getattr(made[0], one.attname), DatabaseDefault))
    table = _read_table(type(made[0]), tuple(left))
    with connection.cursor() as cursor:
        if made[0].pk is None:
            cursor.execute(_IDS, [f'"{meta.db_table}"', meta.pk.column, len(made)])
            for row, (pk,) in zip(made, cursor.fetchall(), strict=True):
                row.pk = pk
        with connection.wrap_database_errors, cursor.copy(table.statement) as copy:
            for row in made:
                values = [one.get_db_prep_save(one.pre_save(row, add=True), connection) for one in table.prepared]
                copy.write_row([*values, *table.read_plain(row)])
    for row in made:
        row._state.adding, row._state.db = False, connection.alias
    return made


@cache
def _read_table(model: type[Model], left: tuple[str, ...]) -> _Table:
    """Args: left: attributes that the database gives."""
    fields = [one for one in model._meta.concrete_fields if one.attname not in left]
    prepared = tuple(one for one in fields if isinstance(one, JSONField | DateTimeField))
    plain = [one for one in fields if one not in prepared]
    columns = sql.SQL(", ").join([sql.Identifier(str(one.column)) for one in (*prepared, *plain)])
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(model._meta.db_table), columns)
    return _Table(prepared, attrgetter(*(one.attname for one in plain)), statement)
