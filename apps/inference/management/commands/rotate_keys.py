"""`manage.py rotate_keys`: renew the keys that seal stored secrets, while everything runs."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.base.sealing import SealedKeyError, add_key, drop_keys
from apps.inference.rotation import find_keys_in_use, renew_secrets


class Command(BaseCommand):
    help = "Seal every stored secret anew with the newest key of TENTALIS_KEY_RING. May be broken off and called again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--new-key", action="store_true", help="First write a fresh key into the ring's file.")
        parser.add_argument("--drop-old", action="store_true", help="Then take keys out that no secret needs.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._renew(new_key=options["new_key"], drop_old=options["drop_old"])
        except SealedKeyError as error:
            raise CommandError(str(error)) from None

    def _renew(self, *, new_key: bool, drop_old: bool) -> None:
        if new_key:
            self.stdout.write(f"key {add_key(self._ring())} is the newest now")
        rotation = renew_secrets(by="system")
        self.stdout.write(f"{rotation.renewed} secrets are sealed anew with key {rotation.key_id}")
        for row in rotation.unreadable:
            self.stderr.write(f"{row}: no key of the ring opens its secret; give it again")
        if drop_old:
            gone = drop_keys(self._ring(), keep=find_keys_in_use())
            self.stdout.write(f"{len(gone)} old keys are dropped")
        if rotation.unreadable:
            raise CommandError(f"{len(rotation.unreadable)} secrets could not be opened")

    def _ring(self) -> Path:
        path: Path | None = settings.TENTALIS["KEY_RING"]
        if path is None:
            raise CommandError(
                "TENTALIS_KEY_RING is not set: name a file that every process of the installation can read; until then"
                " secrets are sealed with TENTALIS_SECRET_KEY"
            )
        return path
