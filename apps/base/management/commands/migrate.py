"""`manage.py migrate`: Django's own; a database that a newer version migrated is refused."""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        if unknown := find_unknown(connections[options["database"]]):
            more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
            raise CommandError(
                f"a newer version migrated the database: this one does not know {unknown[-1]}{more}. Run the newer one "
                "or restore the backup made before the upgrade (docs/install.md, Upgrading)"
            )
        super().handle(*args, **options)


def find_unknown(connection: BaseDatabaseWrapper) -> list[str]:
    """Migrations that the database has had and no file here describes, of the apps there are; sorted."""
    files = MigrationLoader(None, load=False)
    files.load_disk()
    applied = MigrationRecorder(connection).applied_migrations()
    return sorted(
        f"{app}.{name}"
        for app, name in applied
        if app in files.migrated_apps and (app, name) not in files.disk_migrations
    )
