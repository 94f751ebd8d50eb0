"""`manage.py glossary`: the console's terms as markdown, printed, or written into docs/glossary.md."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.console.glossary import write_glossary


class Command(BaseCommand):
    help = "Show the glossary; --write FILE makes a document of it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--write", type=Path, metavar="FILE")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path | None = options["write"]
        if path is None:
            self.stdout.write(write_glossary())
        else:
            path.write_text(write_glossary(), encoding="utf-8")
