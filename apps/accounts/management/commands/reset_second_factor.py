"""`manage.py reset_second_factor NAME`: take the second factor of somebody who lost it."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.models import User
from apps.accounts.second_factor import reset_second_factor


class Command(BaseCommand):
    help = "Take app, passkeys and recovery codes of a person who lost them, and end all they are signed in with."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"], is_agent=False).first()
        if user is None:
            raise CommandError(f"nobody is called {options['username']}")
        if not reset_second_factor(user=user, by="command line"):
            raise CommandError(f"{user.username} has no second factor; what they were signed in with is ended")
        self.stdout.write(f"{user.username} signs in with their password alone; their sessions and sign-ins are ended")
