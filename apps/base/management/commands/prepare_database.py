"""`manage.py prepare_database`: roles, tables, migrations and rights, in this order; safe to run at every start."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pgtrigger
import psycopg
from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection, transaction

from apps.base.schema_file import SCHEMA_FILE, load_schema
from tentalis.platform.database_roles import grant_rights, prepare_roles, read_role

READ_ONLY = ("django_migrations",)
BE_THE_ONLY_ONE = """
SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0;
SELECT pg_advisory_xact_lock(7160003)
"""


class Command(BaseCommand):
    help = (
        "Make the database's roles (with TENTALIS_ADMIN_DATABASE_URL), make or migrate the tables as their owner "
        "(TENTALIS_MIGRATION_DATABASE_URL) and give the application's role its rights."
    )
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        admin_url = settings.TENTALIS["ADMIN_DATABASE_URL"]
        owner_url = settings.TENTALIS["MIGRATION_DATABASE_URL"]
        if not owner_url:
            with _being_the_only_one(settings.DATABASE_URL):
                self._bring_up_to_date(options["verbosity"])
            return
        app, owner = read_role(settings.DATABASE_URL), read_role(owner_url)
        if app[0] == owner[0]:
            raise CommandError(
                "TENTALIS_MIGRATION_DATABASE_URL must name another role than TENTALIS_DATABASE_URL, "
                f"found {app[0]} twice"
            )
        try:
            if admin_url:
                prepare_roles(admin_url, owner=owner, app=app)
        except psycopg.Error as error:
            said = " ".join(str(error).split())
            raise CommandError(f"the roles cannot be made: {said}{_say_cause(error, owner=owner[0])}") from None
        connect_to(owner_url)
        with _being_the_only_one(owner_url):
            self._bring_up_to_date(options["verbosity"])
            with transaction.atomic(), connection.cursor() as cursor:
                grant_rights(cursor, app=app[0], append_only=find_append_only(), read_only=READ_ONLY)

    def _bring_up_to_date(self, verbosity: int) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            is_loaded = load_schema(cursor)
        if is_loaded and verbosity:
            self.stdout.write(f"The database was empty: {SCHEMA_FILE.name} made its tables.")
        call_command("migrate", interactive=False, verbosity=verbosity)


@contextmanager
def _being_the_only_one(url: str) -> Iterator[None]:
    """A second start waits here, and then finds nothing to do."""
    with closing(psycopg.connect(url)) as holder:
        holder.execute(BE_THE_ONLY_ONE)
        yield


def _say_cause(error: psycopg.Error, *, owner: str) -> str:
    """What another installation has to do with it, as far as the words of Postgres tell; "" where nothing.

    The roles are the cluster's, and what keeps two starts apart is a lock of one database.
    """
    if isinstance(error, psycopg.errors.UniqueViolation) or "concurrently updated" in str(error):
        return (
            f". Another installation makes roles of these names ({owner}, …) in the same Postgres just now: give each "
            "roles of its own in TENTALIS_DATABASE_URL and TENTALIS_MIGRATION_DATABASE_URL, or a Postgres"
        )
    if "password authentication failed" in str(error):
        return (
            ". A Postgres answers there that does not know this password: another installation's, which took the port "
            "first? Start this one again, or say TENTALIS_POSTGRES_PORT"
        )
    return ""


def find_append_only() -> list[str]:
    """Tables whose triggers refuse every UPDATE and DELETE: nobody gets the right to either."""
    return sorted(
        model._meta.db_table
        for model in apps.get_models()
        for trigger in getattr(model._meta, "triggers", ())
        if isinstance(trigger, pgtrigger.Protect)
        and {str(part) for part in _operations(trigger.operation)} >= {"UPDATE", "DELETE"}
    )


def _operations(operation: Any) -> list[Any]:
    return list(getattr(operation, "operations", [operation]))


def connect_to(url: str) -> None:
    """From here on this process speaks to the database at `url`, as the role it names."""
    from tentalis.settings.base import database_from

    connection.close()
    connection.settings_dict.update(database_from(url))
    connection.settings_dict["OPTIONS"].pop("pool", None)  # of one connection, which ends with this process
