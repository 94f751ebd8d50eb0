"""Postgres clusters beside the tests' own one: a database is moved to another, and the code works on it there."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from django.conf import settings
from django.db import connections
from django.db.backends.postgresql.base import DatabaseWrapper

from tentalis.platform.home import Home
from tentalis.platform.postgres_server import find_postgres_binaries
from tentalis.platform.up import running_stack
from tentalis.settings.base import database_from


@contextmanager
def running_cluster(root: Path) -> Iterator[str]:
    """A fresh cluster with an empty database: its address."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TENTALIS_")}
    with running_stack(Home(root), environ, is_throwaway=True, only=["postgres"]) as stack:
        yield stack.state().addresses["admin_database_url"]


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
