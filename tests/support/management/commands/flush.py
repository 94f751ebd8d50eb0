"""Empties the test database between tests, past the triggers that keep the audit from being emptied."""

from typing import Any

from django.core.management.commands.flush import Command as FlushCommand
from django.db import connections


class Command(FlushCommand):
    def handle(self, **options: Any) -> None:
        with connections[options["database"]].cursor() as cursor:
            cursor.execute("SET session_replication_role = replica")
            try:
                super().handle(**options)
            finally:
                cursor.execute("SET session_replication_role = DEFAULT")
