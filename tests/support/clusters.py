"""Postgres clusters beside the tests' own one: a database is moved to another, and the code works on it there."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from django.conf import settings
from django.db import connections
from django.db.backends.postgresql.base import DatabaseWrapper

from tentalis.platform.home import Home
from tentalis.platform.postgres_server import MAJOR_VERSION, choose_run_as, find_postgres_binaries, let_in
from tentalis.platform.up import running_stack
from tentalis.settings.base import database_from
from tests.local_server import find_free_port


@contextmanager
def running_cluster(root: Path) -> Iterator[str]:
    """A fresh cluster with an empty database: its address."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TENTALIS_")}
    with running_stack(Home(root), environ, is_throwaway=True, only=["postgres"]) as stack:
        yield stack.state().addresses["admin_database_url"]


def find_older_postgres() -> list[Path]:
    """Directories of programs of an older major version, as Debian and others install them beside each other."""
    return sorted(
        place
        for place in Path("/usr/lib/postgresql").glob("*/bin")
        if (place / "initdb").exists() and 15 <= int(place.parent.name) < int(MAJOR_VERSION)
    )


@contextmanager
def running_older_cluster(root: Path, binaries: Path) -> Iterator[str]:
    """A fresh cluster of other programs than ours with an empty database `tentalis`: its address."""
    run_as, data, log = choose_run_as(), root / "data", root / "log"
    root.mkdir()
    if run_as.user:
        let_in(run_as.user, root, binaries)
        shutil.chown(root, run_as.user)
    port = find_free_port()
    initdb = [*run_as.prefix, str(binaries / "initdb"), "-D", str(data), "-U", "tentalis", "-A", "trust", "--no-sync"]
    subprocess.run([*initdb, "-E", "UTF8", "--locale=C"], check=True, capture_output=True, user=run_as.user)
    serve = [*run_as.prefix, str(binaries / "postgres"), "-D", str(data), "-p", str(port), "-k", str(data)]
    with log.open("wb") as said:
        flags = ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
        process = subprocess.Popen([*serve, *flags], stdout=said, stderr=said, user=run_as.user)
    try:
        address = f"postgres://tentalis:x@127.0.0.1:{port}/postgres"
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            with suppress(psycopg.OperationalError):
                psycopg.connect(address).close()
                break
            time.sleep(0.05)
        yield make_database(address, "tentalis")
    finally:
        process.terminate()
        process.wait()


def own_address() -> str:
    """The address of the database the tests run on."""
    found = settings.DATABASES["default"]
    return f"postgres://{found['USER']}:{found['PASSWORD']}@{found['HOST']}:{found['PORT']}/{found['NAME']}"


def make_database(address: str, name: str) -> str:
    """An empty database beside the one at `address`; its address."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}"')
        connection.execute(f'CREATE DATABASE "{name}"')
    return urlsplit(address)._replace(path=f"/{name}").geturl()


def dump_and_restore(source: str, target: str, dump: Path) -> None:
    """As people do it by hand."""
    binaries = find_postgres_binaries()
    subprocess.run([binaries / "pg_dump", "-Fc", "-f", dump, source], check=True)
    subprocess.run([binaries / "pg_restore", "--single-transaction", "-d", target, dump], check=True)


def use_up_transactions(count: int) -> None:
    """Let the numbers of transactions here be higher than those of a fresh cluster."""
    with connections["default"].cursor() as cursor:
        cursor.execute(f"DO $$ BEGIN FOR n IN 1..{count} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$")


@contextmanager
def working_on(address: str) -> Iterator[None]:
    """The code's database is the one at `address`, in this thread."""
    own = connections["default"]
    own.close()
    values = own.settings_dict | database_from(address) | {"OPTIONS": {}}
    connections["default"] = there = DatabaseWrapper(values, "default")
    try:
        yield
    finally:
        there.close()
        connections["default"] = own
