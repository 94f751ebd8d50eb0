"""Years of a busy project, put into an empty database in minutes: tasks, attempts, steps, reviews, ledger, audit."""

from dataclasses import dataclass
from pathlib import Path

from django.apps import apps
from django.db import connection, transaction

from apps.accounts.models import Member, Project, Role, User
from apps.tasks.models import Task
from apps.workers.models import Worker
from tests.bench.history import write_rows

GROUP, BATCH_TASKS = 8, 24
SLUG, OWNER = "busy", "ana"
OTHER_PROJECTS, REVIEWERS = 40, 50
STATEMENTS = Path(__file__).with_name("console_history.sql")


@dataclass(frozen=True)
class Size:
    """How much is written. `reviews`: open ones for a person, each on a task of its own.

    Raises:
        ValueError: more open reviews than tasks would bear.
    """

    attempts: int
    reviews: int

    def __post_init__(self) -> None:
        most = self.tasks * 9 // 10
        if not 0 < self.reviews <= most:
            raise ValueError(f"wanted 1 to {most} open reviews on {self.tasks} tasks, found {self.reviews}")

    @property
    def tasks(self) -> int:
        return self.attempts // GROUP


def write_history(size: Size) -> dict[str, int]:
    """Fill a migrated database without tasks, and let Postgres know its tables. Returns rows by table.

    Raises:
        ValueError: it holds tasks already.
    """
    if Task.objects.exists():
        raise ValueError("wanted a database without tasks")
    return write_rows(STATEMENTS, _write_people(size))


def empty_tables() -> None:
    """Take everything out again but what migrations wrote, the audit too, which refuses that of anybody else."""
    kept = {"django_migrations", "django_content_type", "auth_permission"}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        tables = sorted({model._meta.db_table for model in apps.get_models(include_auto_created=True)} - kept)
        cursor.execute("TRUNCATE " + ", ".join(f'"{table}"' for table in tables) + " RESTART IDENTITY")


def _write_people(size: Size) -> dict[str, int]:
    """The project, its people and workers, and other projects beside it; what the statements need to know of them."""
    project = Project.objects.create(slug=SLUG, name="Shipping desk", rubric="Totals follow the house rules.")
    owner = User.objects.create(username=OWNER, password="!")
    reviewers = User.objects.bulk_create(
        User(username=f"reviewer{number:02d}", password="!") for number in range(REVIEWERS)
    )
    members = [Member(project=project, user=user, role=Role.REVIEWER) for user in reviewers]
    others = Project.objects.bulk_create(
        Project(slug=f"team-{number:02d}", name=f"Team {number}") for number in range(OTHER_PROJECTS)
    )
    members += [Member(project=other, user=owner, role=Role.MANAGER) for other in others]
    Member.objects.bulk_create([Member(project=project, user=owner, role=Role.OWNER), *members])
    desk, phone = (Worker.objects.create(project=project, name=name, kind="desk") for name in ("desk", "phone"))
    return {
        "project": project.pk,
        "owner": owner.pk,
        "first_reviewer": reviewers[0].pk,
        "reviewers": REVIEWERS,
        "desk": desk.pk,
        "phone": phone.pk,
        "tasks": size.tasks,
        "reviews": size.reviews,
        "group_size": GROUP,
        "batch_tasks": BATCH_TASKS,
    }
