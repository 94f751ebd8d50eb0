"""New rows, many at a time by COPY: the ORM takes several times as long to write such a statement as Postgres to run.
One alone goes by a statement that is written once a model: COPY asks Postgres three times for it.
"""

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
    of_one: str

    def read(self, row: Model) -> list[Any]:
        values = [one.get_db_prep_save(one.pre_save(row, add=True), connection) for one in self.prepared]
        return [*values, *self.read_plain(row)]


def insert(rows: Iterable[Row]) -> list[Row]:
    """Write new rows of one model, which get their ids, in the running transaction: `bulk_create` where COPY will do.

    Every value is of its field's own type and no expression. What the first row leaves to the database's default, all
    do; the objects do not learn it.
    """
    if not (made := list(rows)):
        return made
    meta = type(made[0])._meta
    left = (one.attname for one in meta.concrete_fields if isinstance(getattr(made[0], one.attname), DatabaseDefault))
    is_one = len(made) == 1 and made[0].pk is None
    table = _read_table(type(made[0]), (*left, *([meta.pk.attname] if is_one else [])))
    with connection.cursor() as cursor:
        if is_one:
            cursor.execute(table.of_one, table.read(made[0]))
            [(made[0].pk,)] = cursor.fetchall()
            return _note_saved(made)
        if made[0].pk is None:
            cursor.execute(_IDS, [f'"{meta.db_table}"', meta.pk.column, len(made)])
            for row, (pk,) in zip(made, cursor.fetchall(), strict=True):
                row.pk = pk
        with connection.wrap_database_errors, cursor.copy(table.statement) as copy:
            for row in made:
                copy.write_row(table.read(row))
    return _note_saved(made)


def _note_saved(made: list[Row]) -> list[Row]:
    for row in made:
        row._state.adding, row._state.db = False, connection.alias
    return made


@cache
def _read_table(model: type[Model], left: tuple[str, ...]) -> _Table:
    """Args: left: attributes that the database gives."""
    fields = [one for one in model._meta.concrete_fields if one.attname not in left]
    prepared = tuple(one for one in fields if isinstance(one, JSONField | DateTimeField))
    plain = [one for one in fields if one not in prepared]
    columns = [sql.Identifier(str(one.column)) for one in (*prepared, *plain)]
    table, names = sql.Identifier(model._meta.db_table), sql.SQL(", ").join(columns)
    of_one = sql.SQL("INSERT INTO {} ({}) VALUES ({}) RETURNING {}").format(
        table,
        names,
        sql.SQL(", ").join([sql.Placeholder()] * len(columns)),
        sql.Identifier(str(model._meta.pk.column)),
    )
    copied = sql.SQL("COPY {} ({}) FROM STDIN").format(table, names)
    return _Table(prepared, attrgetter(*(one.attname for one in plain)), copied, of_one.as_string(None))
