"""`manage.py rest_matrix`: which role may call which route, printed, or written into the document that shows it."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.api.matrix import put_into, write_matrix


class Command(BaseCommand):
    help = "Show which role may call which route; --write FILE puts it between the marks of a document."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--write", type=Path, metavar="FILE")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path | None = options["write"]
        if path is None:
            self.stdout.write(write_matrix())
        else:
            path.write_text(put_into(path.read_text(encoding="utf-8")), encoding="utf-8")
