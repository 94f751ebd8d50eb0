"""A running platform works as a role that owns nothing, and as users of Redis that may do what their work needs.

One platform for all tests here: made by an older version, whose tables belong to the superuser, and upgraded.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
import redis
from django.conf import settings as installed

from tentalis.platform import database_roles
from tentalis.platform.home import Home
from tentalis.platform.up import RunningStack, running_stack
from tests.chaos.clients import PatientClient, Tally
from tests.chaos.stage import read_admin_token
from tests.pipeline.line import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SERVICES = ("web", "gateway", "relay", "queue-workers", "queue-control", "bootstrap")
AUDIT = ("audit_auditentry", "audit_auditseal")


@pytest.fixture(scope="module")
def clean() -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TENTALIS_")}
    environ.pop("DJANGO_SETTINGS_MODULE", None)
    return environ


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, clean: dict[str, str]) -> Iterator[RunningStack]:
    home = Home(tmp_path_factory.mktemp("least"))
    make_as_before(home, clean)
    with running_stack(home, clean | {"TENTALIS_WEB_PROCESSES": "1"}, is_throwaway=True, only=SERVICES) as running:
        client = PatientClient(running.state().addresses["console_url"], read_admin_token(running), Tally())
        with client:
            body = {"project": "desk", "environment": "chat", "prompt": "say it", "worker": "echo"}
            client.create("workers", {"project": "desk", "name": "echo", "kind": "echo"}, key="worker")
            task = client.create("tasks", body, key="task")
            wait_until(
                lambda: client.send("GET", f"tasks/{task['id']}").json()["state"] in {"in_review", "done"} or None,
                "the task was worked on and scored",
            )
        yield running


def make_as_before(home: Home, clean: dict[str, str]) -> None:
    """A home whose superuser owns the tables, as earlier versions left it."""
    with (
        running_stack(home, clean, is_throwaway=True, only=("migrate",)) as old,
        psycopg.connect(old.state().addresses["admin_database_url"]) as connection,
    ):
        connection.execute(f"REASSIGN OWNED BY {database_roles.OWNER} TO tentalis".encode())
        for role in (database_roles.APP, database_roles.OWNER):
            connection.execute(f"DROP OWNED BY {role}".encode())
            connection.execute(f"DROP ROLE {role}".encode())


@pytest.fixture
def as_app(stack: RunningStack) -> "Iterator[psycopg.Connection[tuple[object, ...]]]":
    with psycopg.connect(stack.state().addresses["database_url"], autocommit=True) as connection:
        yield connection


def test_the_platform_works_as_the_applications_role(as_app: "psycopg.Connection[tuple[object, ...]]") -> None:
    row = as_app.execute(
        "SELECT current_user, rolsuper, rolcreaterole, rolcreatedb, rolbypassrls, rolreplication "
        "FROM pg_roles WHERE rolname = current_user"
    ).fetchone()
    assert row == (database_roles.APP, False, False, False, False, False)
    assert as_app.execute("SELECT count(*) > 0 FROM audit_auditentry").fetchone() == (True,)


def test_the_application_owns_nothing_and_is_in_no_other_role(as_app: "psycopg.Connection[tuple[object, ...]]") -> None:
    owned = "SELECT count(*) FROM pg_class WHERE relowner = (SELECT oid FROM pg_roles WHERE rolname = current_user)"
    assert as_app.execute(owned).fetchone() == (0,)
    member = "SELECT count(*) FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.member WHERE r.rolname = current_user"
    assert as_app.execute(member).fetchone() == (0,)
    owners = as_app.execute(
        "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public' "
        "UNION SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()"
    ).fetchall()
    assert owners == [(database_roles.OWNER,)]


REFUSED: tuple[LiteralString, ...] = (
    "UPDATE audit_auditentry SET actor = 'nobody'",
    "DELETE FROM audit_auditentry",
    "TRUNCATE audit_auditentry",
    "UPDATE audit_auditseal SET hash = ''",
    "DELETE FROM audit_auditseal",
    "TRUNCATE audit_auditseal CASCADE",
    "SELECT * FROM audit_auditentry FOR UPDATE",
    "SET session_replication_role = replica",
    "ALTER TABLE audit_auditentry DISABLE TRIGGER ALL",
    "ALTER TABLE audit_auditentry DISABLE TRIGGER USER",
    "DROP TABLE audit_auditentry",
    "DROP TABLE audit_auditseal CASCADE",
    "DROP SCHEMA public CASCADE",
    "DROP DATABASE tentalis",
    "ALTER TABLE audit_auditentry OWNER TO tentalis_app",
    "COPY (SELECT 1) TO PROGRAM 'id'",
    "COPY accounts_user FROM PROGRAM 'id'",
    "COPY (SELECT 1) TO '/tmp/somewhere'",
    "SELECT pg_read_file('postgresql.conf')",
    "SELECT lo_import('/etc/passwd')",
    "CREATE TABLE mine (id int)",
    "CREATE FUNCTION public.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE ROLE me SUPERUSER",
    "ALTER ROLE tentalis_app SUPERUSER",
    "ALTER ROLE tentalis_owner PASSWORD 'mine'",
    "SET ROLE tentalis_owner",
    "SET ROLE tentalis",
    "SET SESSION AUTHORIZATION tentalis",
    "ALTER SYSTEM SET log_statement = 'none'",
    "SELECT pg_reload_conf()",
    "INSERT INTO django_migrations (app, name, applied) VALUES ('audit', 'x', now())",
    "DELETE FROM django_migrations",
    "SELECT rolpassword FROM pg_authid",
)


@pytest.mark.parametrize("statement", REFUSED)
def test_the_application_may_not(as_app: "psycopg.Connection[tuple[object, ...]]", statement: LiteralString) -> None:
    with pytest.raises(psycopg.Error) as raised:
        as_app.execute(statement)
    assert raised.value.sqlstate in {"42501", "42P16"}, raised.value


def test_what_the_triggers_would_be_told_to_ignore_is_refused_all_the_same(
    as_app: "psycopg.Connection[tuple[object, ...]]",
) -> None:
    for table, trigger in zip(AUDIT, ("audit_entry_rows", "audit_seal_rows"), strict=True):
        as_app.execute(f"SET pgtrigger.ignore = '{{{table}:{trigger}}}'".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_app.execute(f"DELETE FROM {table}".encode())


def test_no_process_but_the_one_that_prepares_the_database_gets_the_owners_password(stack: RunningStack) -> None:
    addresses = stack.state().addresses
    assert addresses["admin_database_url"].startswith("postgres://tentalis:")
    secrets = [addresses[name] for name in ("admin_database_url", "migration_database_url")]
    for name in ("web", "gateway", "relay", "queue-workers", "queue-control"):
        environ = Path(f"/proc/{stack.pid_of(name)}/environ").read_bytes().decode()
        assert not [secret for secret in secrets if secret in environ], name


def test_each_process_speaks_to_redis_as_its_own_user_and_was_denied_nothing(stack: RunningStack) -> None:
    users = {
        "web": "web",
        "gateway": "gateway",
        "relay": "queues",
        "queue-control": "queues",
        "queue-workers": "queues",
    }
    for name, user in users.items():
        environ = Path(f"/proc/{stack.pid_of(name)}/environ").read_bytes().decode()
        assert f"TENTALIS_REDIS_URL=redis://{user}:" in environ, name
    with redis.Redis.from_url(stack.state().addresses["redis_url"]) as admin:
        assert admin.acl_log() == []


def test_starting_again_changes_nothing(stack: RunningStack, clean: dict[str, str]) -> None:
    addresses = stack.state().addresses
    owner, app = (database_roles.read_role(addresses[name]) for name in ("migration_database_url", "database_url"))
    database_roles.prepare_roles(addresses["admin_database_url"], owner=owner, app=app)
    with psycopg.connect(addresses["database_url"]) as connection:
        assert connection.execute("SELECT count(*) > 0 FROM accounts_project").fetchone() == (True,)


def test_the_wall_was_not_there_before(stack: RunningStack) -> None:
    """The same statements as the superuser, whom the application used to be."""
    with psycopg.connect(stack.state().addresses["admin_database_url"]) as connection:
        connection.execute("SET session_replication_role = replica")
        changed = connection.execute("UPDATE audit_auditentry SET actor = actor")
        assert changed.rowcount > 0
        connection.rollback()
    assert installed.CELERY_WORKER_ENABLE_REMOTE_CONTROL is False
