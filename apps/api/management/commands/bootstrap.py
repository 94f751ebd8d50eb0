"""`manage.py bootstrap`: the first admin, a first project with a worker, and a token for the command line."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection, transaction

from apps.accounts.models import Member, Project, Role, User
from apps.accounts.rights import Right
from apps.accounts.services import add_member, create_project, create_user
from apps.accounts.tokens import create_token, find_token, revoke_token
from apps.base.errors import NotSignedInError
from apps.workers.models import Worker
from apps.workers.services import create_worker
from tentalis.core.desk import say_house_rules
from tentalis.platform.errors import HomeError
from tentalis.platform.home import write_private_file

ADMIN = "admin"
PROJECT_SLUG = "desk"
PROJECT: dict[str, Any] = {
    "name": "Ticket desk",
    "rubric": say_house_rules(),
    "review_policy": {"ai_manager": "rule-book", "who": "both", "rate": 1.0, "human_rate": 0.05},
}
WORKER = "desk"
BOOTSTRAP_LOCK = 7_160_001  # two starts at once make one admin


class Command(BaseCommand):
    help = "Make the first admin, the project `desk` with its worker, and on request a token; safe to run again."
    requires_system_checks: list[str] = []  # they load every page, half of what a start costs

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--token-file", type=Path, help="write a token of the admin here, readable by you alone")

    def handle(self, *args: Any, **options: Any) -> None:
        with transaction.atomic():
            _lock()
            admin = _make_admin()
            project = _make_project(admin)
            if not Worker.objects.filter(project=project, name=WORKER).exists():
                create_worker(project=project, name=WORKER, kind="desk", by=admin)
        if options["token_file"]:
            write_token(admin, options["token_file"])


def write_token(user: User, path: Path) -> None:
    """Leave a working token of every scope in a file of mode 0600; one that still works stays."""
    if path.exists():
        try:
            if find_token(path.read_text(encoding="utf-8").strip()).user_id == user.pk:
                return
        except NotSignedInError:
            pass
    token, text = create_token(user=user, name=f"command line ({path.name})", scopes=Right.values, by=user)
    try:
        write_private_file(path, text + "\n")
    except HomeError as error:
        revoke_token(token=token, by=user)
        raise CommandError(str(error)) from error


def _lock() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [BOOTSTRAP_LOCK])


def _make_admin() -> User:
    if found := User.objects.filter(username=ADMIN).first():
        return found
    password = settings.TENTALIS["ADMIN_PASSWORD"]
    if not password:
        raise CommandError("TENTALIS_ADMIN_PASSWORD must be set for the first admin, found nothing")
    return create_user(username=ADMIN, password=password, is_superuser=True, by="bootstrap")


def _make_project(admin: User) -> Project:
    project = Project.objects.filter(slug=PROJECT_SLUG).first()
    if project is None:
        return create_project(slug=PROJECT_SLUG, by=admin, **PROJECT)
    if not Member.objects.filter(project=project, user=admin).exists():
        add_member(project=project, user=admin, role=Role.OWNER, by=admin)
    return project
