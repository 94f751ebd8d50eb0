"""`manage.py plugins`: what other packages add to this installation, as JSON lines, with why one is not used."""

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from tentalis.plugins import list_plugins


class Command(BaseCommand):
    help = "List what other packages add to this installation, a JSON object a line; `error` says why one is not used."

    def handle(self, **options: Any) -> None:
        for plugin in list_plugins():
            self.stdout.write(json.dumps(asdict(plugin)))
