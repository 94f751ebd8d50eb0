"""A history put into a database by INSERT … SELECT, in one session whose triggers and foreign keys sleep.

A row trigger for each of half a million audit entries takes longer than everything else together. That is a
superuser's (`session_replication_role`): the address Django has here is `admin_database_url`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.apps import apps
from django.db import connection, models, transaction
from psycopg import sql

from apps.audit.chain import LOCK as SEAL_LOCK


def write_rows(statements: Path, given: Mapping[str, int]) -> dict[str, int]:
    """Run statements that read `given`, and let Postgres know its tables. Returns rows by table.

    Args:
        given: becomes the one row of a temporary table of that name.
    """
    text = "\n".join(line for line in statements.read_text().splitlines() if not line.startswith("--"))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [SEAL_LOCK])  # nobody seals meanwhile
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("SET LOCAL work_mem = '256MB'")
        columns = ", ".join(f"{value}::bigint AS {name}" for name, value in given.items())
        cursor.execute(f"CREATE TEMP TABLE given ON COMMIT DROP AS SELECT {columns}")
        lent = _lend_defaults(cursor)
        for statement in filter(str.strip, text.split(";\n")):
            cursor.execute(statement)
        _set_sequences(cursor)
        for table, column in lent:
            cursor.execute(f'ALTER TABLE "{table}" ALTER COLUMN "{column}" DROP DEFAULT')
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("CHECKPOINT")
        cursor.execute("SELECT relname, n_live_tup FROM pg_stat_user_tables WHERE n_live_tup > 0 ORDER BY 2 DESC")
        return dict(cursor.fetchall())


def _lend_defaults(cursor: Any) -> list[tuple[str, str]]:
    """Give columns their models' defaults for as long as we write, so that the statements name only what matters."""
    lent: list[tuple[str, str]] = []
    for model in _our_models():
        for field in model._meta.concrete_fields:
            if field.null or field.has_db_default() or field.is_relation or isinstance(field, models.AutoField):
                continue
            if not (_is_dated(field) or field.has_default() or field.empty_strings_allowed):
                continue
            place = (model._meta.db_table, str(field.column))
            cursor.execute('ALTER TABLE "{}" ALTER COLUMN "{}" SET DEFAULT '.format(*place) + _literal(cursor, field))
            lent.append(place)
    return lent


def _is_dated(field: Any) -> bool:
    return bool(getattr(field, "auto_now", False) or getattr(field, "auto_now_add", False))


def _literal(cursor: Any, field: Any) -> str:
    if _is_dated(field):
        return "now()"
    value = field.get_db_prep_save(field.get_default(), connection)
    return sql.Literal(value).as_string(cursor.cursor)


def _set_sequences(cursor: Any) -> None:
    """Rows were written with ids of our own; the next ones come after them."""
    for model in _our_models():
        if isinstance(model._meta.pk, models.AutoField):
            table = model._meta.db_table
            cursor.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table} HAVING max(id) > 0"
            )


def _our_models() -> list[type[models.Model]]:
    return [model for model in apps.get_models() if model.__module__.startswith("apps.")]
