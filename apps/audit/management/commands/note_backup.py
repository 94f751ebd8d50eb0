"""`manage.py note_backup made|drilled JSON`: put on record that a backup was made, or that a drill brought one back."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.audit.kinds import Kind
from apps.audit.services import record

KINDS = {"made": Kind.BACKUP_MADE, "drilled": Kind.BACKUP_DRILLED}


class Command(BaseCommand):
    """What the alarms about old backups look at."""

    help = "Put a backup or a drill on record."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("what", choices=sorted(KINDS))
        parser.add_argument("payload", type=json.loads)

    def handle(self, *args: Any, **options: Any) -> None:
        record(KINDS[options["what"]], by="command", payload=options["payload"])
