"""`manage.py let_make_projects NAME`: grant a person the right to make projects, or take it."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.models import User
from apps.accounts.services import let_make_projects


class Command(BaseCommand):
    help = "Let a person make projects; admins of the installation may anyway."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--no", action="store_true", help="take the right instead")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"], is_agent=False).first()
        if user is None:
            raise CommandError(f"nobody is called {options['username']}")
        let_make_projects(user=user, may=not options["no"], by="command line")
