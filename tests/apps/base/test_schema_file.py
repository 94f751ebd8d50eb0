"""The file that an empty database is given holds what all migrations make, and is given to no other."""

import re
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

import psycopg
import pytest
from django.core.management import call_command
from django.db.migrations.loader import MigrationLoader

from apps.base.schema_file import SCHEMA_FILE, dump_schema, load_schema
from tests.support.clusters import find_older_postgres, make_database, own_address, running_older_cluster, working_on

OLDER = find_older_postgres()
CAST_AS_A_WHOLE = re.compile(r"\(ARRAY\[([^]]*)\]\)::text\[\]")


@pytest.fixture
def empty() -> Iterator[str]:
    yield make_database(own_address(), "empty")
    with psycopg.connect(own_address(), autocommit=True) as connection:
        connection.execute("DROP DATABASE empty")


def is_loaded(address: str) -> bool:
    with psycopg.connect(address) as connection:
        return load_schema(connection.cursor())


def count_tables(address: str) -> int:
    with psycopg.connect(address) as connection:
        return len(connection.execute("SELECT FROM pg_tables WHERE schemaname = 'public'").fetchall())


def cast_one_by_one(text: str) -> str:
    """As Postgres reads a condition that it wrote itself, which is the same condition; a backup comes back so, too."""
    return CAST_AS_A_WHOLE.sub(
        lambda found: "ARRAY[" + ", ".join(f"({word})::text" for word in found[1].split(", ")) + "]", text
    )


def compare(wanted: str, found: str) -> str:
    """The first lines that differ."""
    return "\n".join(list(unified_diff(wanted.splitlines(), found.splitlines(), n=0, lineterm=""))[:40])


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_file_is_what_all_migrations_make_and_makes_the_same(empty: str) -> None:
    with working_on(empty):
        call_command("migrate", interactive=False, verbosity=0)
    kept = SCHEMA_FILE.read_text(encoding="utf-8")
    difference = compare(dump_schema(empty), kept)
    assert not difference, f"{SCHEMA_FILE} is not what the migrations make, run `make schema`:\n{difference}"

    loaded = make_database(own_address(), "empty")
    assert is_loaded(loaded)
    assert compare(cast_one_by_one(kept), dump_schema(loaded)) == ""


def test_every_migration_stands_in_the_file() -> None:
    kept = SCHEMA_FILE.read_text(encoding="utf-8")
    lacking = [name for name in MigrationLoader(None).disk_migrations if "('{}', '{}', ".format(*name) not in kept]
    assert lacking == [], "run `make schema`"


@pytest.mark.django_db
def test_a_migration_that_writes_rows_is_named_before_they_are_lost(empty: str) -> None:
    assert is_loaded(empty)
    with psycopg.connect(empty) as connection:
        connection.execute("INSERT INTO audit_auditepoch (number, cluster) VALUES (1, 2)")
    with pytest.raises(ValueError, match="writes rows of audit_auditepoch into an empty database"):
        dump_schema(empty)


def test_a_load_that_is_cut_off_leaves_an_empty_database_and_a_second_one_nothing(empty: str) -> None:
    with psycopg.connect(empty) as cut_off:
        assert load_schema(cut_off.cursor())
        cut_off.rollback()
    assert count_tables(empty) == 0
    assert is_loaded(empty)
    assert not is_loaded(empty)


@pytest.mark.parametrize(
    "there",
    [
        "CREATE TABLE somebodys (id integer)",
        "CREATE SCHEMA first; ALTER DATABASE empty SET search_path = first",
        "ALTER DATABASE empty SET role = pg_monitor",
    ],
    ids=["a table is", "tables go elsewhere", "the role may make none"],
)
def test_nothing_is_loaded_where(empty: str, there: str) -> None:
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(there.encode())
    assert not is_loaded(empty)


@pytest.mark.broker
@pytest.mark.skipif(not OLDER, reason="no older Postgres below /usr/lib/postgresql (Debian: apt install postgresql-15)")
def test_nothing_is_loaded_into_an_older_server(tmp_path: Path) -> None:
    with running_older_cluster(tmp_path / "cluster", OLDER[0]) as address:
        assert not is_loaded(address)
