"""`manage.py check_restored`: an installation that was brought back looks at itself, and says so in its audit."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.pipeline.keeping import check_restored


class Command(BaseCommand):
    """The last line is JSON: {"faults": [sentence, …], "audit", "sequences", "adapters", "shut"}."""

    help = "Check what a backup brought back: the audit's chain goes on, numbers go on, files are what they were."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--told", default="{}", help="JSON that the audit's entry keeps")

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(json.dumps(check_restored(told=json.loads(options["told"]))))
