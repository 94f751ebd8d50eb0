"""A backup comes back into the next major version of Postgres; what cannot be, and one of a newer version of ours, is
refused in words."""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from django.db.migrations.recorder import MigrationRecorder

from apps.audit.services import record
from tentalis.platform.errors import BackupError, RestoreError
from tentalis.platform.home import Home
from tentalis.platform.keeping import postgres_tools
from tentalis.platform.keeping.place import Place
from tentalis.platform.keeping.repository import DATABASE, Repository
from tentalis.platform.keeping.restoring import restore_backup
from tentalis.platform.keeping.sealing import check
from tentalis.platform.keeping.taking import count_rows, take_backup
from tentalis.platform.postgres_server import MAJOR_VERSION, find_postgres_binaries
from tests.factories import make_project
from tests.support.clusters import find_older_postgres, make_database, own_address, running_older_cluster

OLDER = find_older_postgres()
NONE_OLDER = "no older Postgres lies below /usr/lib/postgresql here (Debian: apt-get install postgresql-15)"


def addressed(environ: dict[str, str], address: str) -> dict[str, str]:
    return environ | {"TENTALIS_DATABASE_URL": address}


def ask(address: str, statement: str) -> object:
    with psycopg.connect(address) as connection:
        row = connection.execute(statement).fetchone()
        return row and row[0]


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_older_cluster(tmp_path_factory.mktemp("older") / "cluster", OLDER[0]) as address:
        yield address


def put_into(older: str) -> None:
    """What the tests' own database holds, which is cheaper than making every table again."""
    major = int(OLDER[0].parent.name)
    with (
        postgres_tools.connect(own_address()) as connection,
        postgres_tools.restoring(older, server_major=major) as pipe,
    ):
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        row = connection.execute("SELECT pg_export_snapshot()").fetchone()
        assert row is not None
        with postgres_tools.dumping(own_address(), server_major=int(MAJOR_VERSION), snapshot=row[0]) as dump:
            shutil.copyfileobj(dump, pipe)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(not OLDER, reason=NONE_OLDER)
def test_a_backup_of_an_older_server_comes_back_into_ours_and_into_one_of_its_own_age(
    home: Home, environ: dict[str, str], older: str, tmp_path: Path
) -> None:
    shop = make_project()
    record("task.done", subject=shop, by="test", project_id=shop.pk)
    put_into(older)
    place = Place.find(home, addressed(environ, older))
    keys, repository = place.find_keys(), Repository(tmp_path / "backups")
    manifest = take_backup(place, repository, keys)
    assert manifest.postgres == int(OLDER[0].parent.name)

    newer = restore_backup(Home(tmp_path / "newer"), environ, repository, data_key=keys.data, secrets_key=keys.secrets)
    assert newer.faults == ()
    assert newer.manifest.counts["public.accounts_project"] == 1
    beside = make_database(older, "beside")
    with postgres_tools.restoring(beside, server_major=manifest.postgres) as pipe:
        check(repository.directory_of(manifest.id) / DATABASE, keys.data, manifest.database, pipe)
    with postgres_tools.connect(beside) as connection:
        assert count_rows(connection) == manifest.counts


@pytest.mark.broker
@pytest.mark.django_db(transaction=True)
def test_a_backup_of_a_newer_server_is_refused_and_leaves_nothing(
    home: Home, environ: dict[str, str], tmp_path: Path
) -> None:
    place = Place.find(home, addressed(environ, own_address()))
    keys, repository = place.find_keys(), Repository(tmp_path / "backups")
    kept = take_backup(place, repository, keys)
    file = repository.directory_of(kept.id) / "manifest.json"
    file.write_text(json.dumps(replace(kept, postgres=kept.postgres + 1).to_json()))
    empty = make_database(own_address(), "an_older_one")
    with pytest.raises(RestoreError, match=rf"is of Postgres {kept.postgres + 1}, the server is {kept.postgres}"):
        restore_backup(
            Home(tmp_path / "back"), addressed(environ, empty), repository, data_key=keys.data, secrets_key=None
        )
    assert not (tmp_path / "back").exists()
    assert ask(empty, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0
    with psycopg.connect(own_address(), autocommit=True) as connection:
        connection.execute("DROP DATABASE an_older_one")


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.django_db(transaction=True)
def test_a_backup_of_a_newer_version_of_ours_is_refused_and_leaves_no_home(
    home: Home, environ: dict[str, str], tmp_path: Path
) -> None:
    place = Place.find(home, addressed(environ, own_address()))
    keys, repository = place.find_keys(), Repository(tmp_path / "backups")
    tomorrow = MigrationRecorder.Migration.objects.create(app="tasks", name="9999_of_tomorrow")
    take_backup(place, repository, keys)
    tomorrow.delete()
    with pytest.raises(RestoreError, match=r"a newer version migrated the database: .* tasks\.9999_of_tomorrow"):
        restore_backup(Home(tmp_path / "back"), environ, repository, data_key=keys.data, secrets_key=keys.secrets)
    assert not (tmp_path / "back").exists()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A pg_dump that says it is of version 42."""
    path = tmp_path / "bin" / "pg_dump"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 42.3 (Debian 42.3-1)'\n")
    path.chmod(0o755)
    return path


def test_programs_are_found_by_the_servers_version_and_named_where_they_are_too_old(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    assert postgres_tools.find_tool("pg_dump", server_major=15) == find_postgres_binaries() / "pg_dump"
    assert postgres_tools.find_tool("pg_dump", server_major=int(MAJOR_VERSION)).parent == find_postgres_binaries()
    assert postgres_tools.find_tool("pg_dump", server_major=42) == program
    with pytest.raises(BackupError, match=rf"pg_dump 43 or newer; {program} is of version 42: install the client"):
        postgres_tools.find_tool("pg_dump", server_major=43)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BackupError, match="there is none: install"):
        postgres_tools.find_tool("pg_dump", server_major=43)
