"""Years of a busy project, put into an empty database in minutes: tasks, attempts, steps, reviews, ledger, audit.

Written by INSERT … SELECT in one session whose triggers and foreign keys sleep (`session_replication_role`): a row
trigger for each of half a million audit entries takes longer than everything else together.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.apps import apps
from django.db import connection, models, transaction
from psycopg import sql

from apps.accounts.models import Member, Project, Role, User
from apps.tasks.models import Task
from apps.workers.models import Worker

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
    given = _write_people(size)
    text = "\n".join(line for line in STATEMENTS.read_text().splitlines() if not line.startswith("--"))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("SET LOCAL work_mem = '256MB'")
        columns = ", ".join(f"{value}::bigint AS {name}" for name, value in given.items())
        cursor.execute(f"CREATE TEMP TABLE given ON COMMIT DROP AS SELECT {columns}")
        lent = _lend_defaults(cursor)
        for statement in filter(str.strip, text.split(";\n")):
            cursor.execute(statement)
        _set_sequences(cursor)
        for table, column in lent:
            cursor.execute(f'ALTER TABLE "{table}" ALTER COLUMN "{column}" DROP DEFAULT')
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("CHECKPOINT")
        cursor.execute("SELECT relname, n_live_tup FROM pg_stat_user_tables WHERE n_live_tup > 0 ORDER BY 2 DESC")
        return dict(cursor.fetchall())


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
    desk, phone = (
        Worker.objects.create(project=project, name=name, kind=Worker.Kind.DESK) for name in ("desk", "phone")
    )
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


def _lend_defaults(cursor: Any) -> list[tuple[str, str]]:
    """Give columns their models' defaults for as long as we write, so that the statements name only what matters."""
    lent: list[tuple[str, str]] = []
    for model in _our_models():
        for field in model._meta.concrete_fields:
            if field.null or field.has_db_default() or field.is_relation or isinstance(field, models.AutoField):
                continue
            if not (_is_dated(field) or field.has_default() or field.empty_strings_allowed):
                continue
            place = (model._meta.db_table, str(field.column))
            cursor.execute('ALTER TABLE "{}" ALTER COLUMN "{}" SET DEFAULT '.format(*place) + _literal(cursor, field))
            lent.append(place)
    return lent


def _is_dated(field: Any) -> bool:
    return bool(getattr(field, "auto_now", False) or getattr(field, "auto_now_add", False))


def _literal(cursor: Any, field: Any) -> str:
    if _is_dated(field):
        return "now()"
    value = field.get_db_prep_save(field.get_default(), connection)
    return sql.Literal(value).as_string(cursor.cursor)


def _set_sequences(cursor: Any) -> None:
    """Rows were written with ids of our own; the next ones come after them."""
    for model in _our_models():
        if isinstance(model._meta.pk, models.AutoField):
            table = model._meta.db_table
            cursor.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table} HAVING max(id) > 0"
            )


def _our_models() -> list[type[models.Model]]:
    return [model for model in apps.get_models() if model.__module__.startswith("apps.")]
