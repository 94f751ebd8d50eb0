"""The schema that all migrations together make, as a file that an empty database is given instead (ADR 184)."""

import re
import subprocess
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tentalis.platform.keeping.postgres_tools import connection_environment
from tentalis.platform.postgres_server import MAJOR_VERSION, find_postgres_binaries

SCHEMA_FILE = Path(__file__).with_name("schema.sql")
HEADER = "-- Written by `make schema` from all migrations, for empty databases (prepare_database); never by hand."

MAY_BE_LOADED = """
SELECT current_schema() = 'public' AND has_schema_privilege(current_schema(), 'CREATE')
    AND current_setting('server_version_num')::integer / 10000 >= %s
    AND NOT EXISTS (
        SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p', 'S', 'v', 'm', 'f')
        AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.classid = 'pg_class'::regclass
                        AND d.deptype = 'e')
    )
"""
"""Our own server's version wrote the file. What an extension brought counts as nothing."""
MADE_AFTER_MIGRATING = ("django_content_type", "auth_permission")
"""What `migrate` fills at its end, also where it had nothing to do."""
RECORDED = "SELECT app, name FROM django_migrations"

OPTIONS = ("--schema-only", "--no-owner", "--no-privileges", "--no-tablespaces", "--no-table-access-method")
OBJECT = re.compile(r"^--\n-- Name: .*\n--\n\n", re.MULTILINE)
END = "--\n-- PostgreSQL database dump complete\n--"


def load_schema(cursor: Any) -> bool:
    """Make the tables and the record of their migrations, in the transaction of the cursor.

    Args:
        cursor: of who is to own the tables.
    Returns:
        False where nothing was done: there is something in the schema `public`, tables would be made elsewhere or not
        at all, or the server is older than the one which the file was dumped from.
    """
    cursor.execute(MAY_BE_LOADED, [int(MAJOR_VERSION)])
    if not cursor.fetchone()[0]:
        return False
    cursor.execute("SET LOCAL check_function_bodies = false")  # they name tables that come after them
    cursor.execute(SCHEMA_FILE.read_text(encoding="utf-8"))
    return True


def dump_schema(address: str) -> str:
    """What `SCHEMA_FILE` must hold for a database that was migrated from nothing on our own Postgres.

    Raises:
        ValueError: a migration wrote rows, which the file would lack.
    """
    program = find_postgres_binaries() / "pg_dump"
    done = subprocess.run(
        [program, *OPTIONS], env=connection_environment(address), stdout=subprocess.PIPE, text=True, check=True
    )
    _settings, *objects = OBJECT.split(done.stdout.partition(END)[0])
    with psycopg.connect(address) as connection:
        _require_no_rows(connection)
        row = sql.SQL("    ({}, {}, now())")
        rows = [row.format(*names).as_string() for names in sorted(connection.execute(RECORDED))]
    record = "INSERT INTO public.django_migrations (app, name, applied) VALUES\n" + ",\n".join(rows) + ";"
    return "\n\n".join([HEADER, *(statement.strip() for statement in objects), record]) + "\n"


def _require_no_rows(connection: "psycopg.Connection[Any]") -> None:
    known = ("django_migrations", *MADE_AFTER_MIGRATING)
    for (table,) in connection.execute("SELECT relname FROM pg_stat_user_tables ORDER BY relname").fetchall():
        some = sql.SQL("SELECT EXISTS (SELECT FROM {})").format(sql.Identifier(table))
        if table not in known and connection.execute(some).fetchone() != (False,):
            raise ValueError(
                f"a migration writes rows of {table} into an empty database, which {SCHEMA_FILE.name} would lack: "
                "let `bootstrap` or the code that needs them write them"
            )
