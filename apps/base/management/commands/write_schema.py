"""`manage.py write_schema`: what all migrations make of an empty database, as the file that is loaded instead."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connection

from apps.base.management.commands.prepare_database import connect_to
from apps.base.schema_file import SCHEMA_FILE, dump_schema
from tentalis.platform.home import Home
from tentalis.platform.up import running_stack


class Command(BaseCommand):
    help = "Migrate from nothing on a Postgres of its own and write what comes of it; after each new migration."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("TENTALIS_")}
        with (
            TemporaryDirectory(prefix="tentalis-schema-") as root,
            running_stack(Home(Path(root)), environ, is_throwaway=True, only=("postgres",)) as stack,
        ):
            address = stack.state().addresses["admin_database_url"]
            connect_to(address)
            call_command("migrate", interactive=False, verbosity=0)
            connection.close()
            SCHEMA_FILE.write_text(dump_schema(address), encoding="utf-8")
        self.stdout.write(f"{SCHEMA_FILE} written")
