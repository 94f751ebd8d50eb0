"""The roles in Postgres: one owns the tables and migrates, another is the application and owns nothing.

`prepare_roles` is run as an administrator of the cluster, `grant_rights` as the owner after each migration. The
application's role reads and writes rows, and may do nothing to the audit but add to it.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import psycopg
from psycopg import sql

from tentalis.platform.derived import derive_password

OWNER, APP = "tentalis_owner", "tentalis_app"

LEAST = sql.SQL("LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS")

RELATIONS = """
SELECT format('%%I.%%I', n.nspname, c.relname), c.relkind
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p', 'S', 'v', 'm', 'f') AND pg_get_userbyid(c.relowner) <> %s
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.classid = 'pg_class'::regclass
                  AND d.deptype IN ('a', 'i', 'e') AND (c.relkind = 'S' OR d.deptype = 'e'))
"""
ROUTINES = """
SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = 'public' AND pg_get_userbyid(p.proowner) <> %s
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.classid = 'pg_proc'::regclass
                  AND d.deptype = 'e')
"""
KINDS = {"S": "SEQUENCE", "v": "VIEW", "m": "MATERIALIZED VIEW", "f": "FOREIGN TABLE"}


def password_of(role: str, postgres_password: str) -> str:
    """A role's password in the embedded cluster, which follows from the administrator's and does not give it away."""
    return derive_password(postgres_password, f"postgres role {role}")


def url_of(role: str, password: str, url: str) -> str:
    """The same database as somebody else."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{quote(role, safe='')}:{quote(password, safe='')}@{host}"))


def read_role(url: str) -> tuple[str, str]:
    """(role, password) of a database's address."""
    parts = urlsplit(url)
    return unquote(parts.username or ""), unquote(parts.password or "")


def prepare_roles(admin_url: str, *, owner: tuple[str, str], app: tuple[str, str]) -> None:
    """Make both roles where they are missing, and everything in the database the owner's; at every start.

    Args:
        admin_url: of a superuser, or of a role that may create roles and owns what is there.
        owner, app: (role, password).
    Raises:
        psycopg.Error: it cannot be done.
    """
    with psycopg.connect(admin_url) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(7160002)")  # two starts at once
        for role, password in (owner, app):
            _make_role(connection, role, password)
        give = sql.SQL("ALTER DATABASE {} OWNER TO {}")
        connection.execute(give.format(sql.Identifier(connection.info.dbname), sql.Identifier(owner[0])))
        for name, kind in connection.execute(RELATIONS, [owner[0]]).fetchall():
            word = KINDS.get(kind.decode() if isinstance(kind, bytes) else kind, "TABLE")
            _give(connection, word, name, owner[0])
        for (name,) in connection.execute(ROUTINES, [owner[0]]).fetchall():
            _give(connection, "ROUTINE", name, owner[0])


def _make_role(connection: "psycopg.Connection[Any]", role: str, password: str) -> None:
    """The password goes over the wire as what the server stores of it, so that no log can hold it."""
    found = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone()
    verifier = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    make = sql.SQL("{} ROLE {} WITH {} PASSWORD {}").format(
        sql.SQL("ALTER" if found else "CREATE"), sql.Identifier(role), LEAST, sql.Literal(verifier)
    )
    connection.execute(make)


def _give(connection: "psycopg.Connection[Any]", word: str, name: str, owner: str) -> None:
    """`name` is quoted as the catalogue does it."""
    statement = f"ALTER {word} {name} OWNER TO "
    connection.execute(sql.SQL(statement) + sql.Identifier(owner))


def grant_rights(cursor: Any, *, app: str, append_only: Sequence[str], read_only: Sequence[str]) -> None:
    """Give the application's role its rights on what there is now, and take away any other.

    Args:
        cursor: of the owner's connection.
        append_only: tables that it may only add rows to; read_only: tables that it may only read.
    """
    role = sql.Identifier(app)
    cursor.execute(sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {}").format(role))
    cursor.execute(sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(role))
    cursor.execute(sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {}").format(role))
    cursor.execute(sql.SQL("GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {}").format(role))
    for tables, taken in ((append_only, "UPDATE, DELETE"), (read_only, "INSERT, UPDATE, DELETE")):
        for table in tables:
            take = sql.SQL("REVOKE {} ON {} FROM {}").format(sql.SQL(taken), sql.Identifier(table), role)
            cursor.execute(take)
