"""`manage.py verify_audit`: recompute the audit's hash chain, and put the result on record."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.audit.chain import find_chain_status, seal_entries, verify_chain, verify_next

STEP = 50_000


class Command(BaseCommand):
    """From where the last clean one ended; with --all from the first place on, and entries without a place too."""

    help = "Recompute the audit's hash chain and say what was found."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--all", action="store_true", help="the whole chain, from its first place")

    def handle(self, *args: Any, **options: Any) -> None:
        while seal_entries():
            pass
        if options["all"]:
            report = verify_chain()
            if not report.is_clean:
                raise CommandError("\n".join(report.faults))
            self.stdout.write(f"{report.sealed} places verified; head {report.head}")
            return
        while (part := verify_next(by="command", limit=STEP)) is not None:
            if not part.is_clean:
                raise CommandError("\n".join(part.faults))
        status = find_chain_status()
        self.stdout.write(f"verified up to place {status.verified_to} of {status.sealed_to}; head {status.head}")
