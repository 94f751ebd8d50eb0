"""`manage.py examine_world NAME`: what `tentalis world doctor` runs where the world is installed."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.worlds.certificates import certify, find_standing, is_examined
from apps.worlds.errors import UnknownEnvironmentError
from apps.worlds.examining import TASKS
from apps.worlds.registry import get_world

BY = "command line"


class Command(BaseCommand):
    help = "Examine a world and keep what was found: nothing trains in one that is new, changed or failed."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--prompt", action="append", default=[], help="a task to try; repeatable")
        parser.add_argument("--tasks", type=int, default=TASKS, help="that it makes up itself")
        parser.add_argument("--acts", action="store_true", help="it may change something beyond itself")

        parser.add_argument("--accept", default="", help="why it may train whatever is found; it is put on record")

    def handle(self, **options: Any) -> None:
        try:
            world = get_world(options["name"])
        except UnknownEnvironmentError as error:
            raise CommandError(str(error)) from None
        if not world.keeps_nothing and not options["acts"]:
            raise CommandError(f"tries in {world.name} change something beyond it: say --acts if they may")
        if not is_examined(world) and not options["prompt"]:
            self.stdout.write(json.dumps({"world": world.name, "passed": None, "words": find_standing(world).words}))
            return
        made = certify(world, by=BY, prompts=options["prompt"], tasks=options["tasks"], accepted=options["accept"])
        told = {
            name: getattr(made, name) for name in ("id", "world", "version", "sha256", "passed", "checks", "figures")
        }
        self.stdout.write(json.dumps({**told, "words": find_standing(world).words}))
