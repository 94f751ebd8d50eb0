"""`manage.py migrate`: what was killed is begun again, and what a newer version migrated is left alone."""

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

pytestmark = pytest.mark.django_db
INVALID = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'task_words'::regclass"
VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'task_words'::regclass"


@pytest.mark.parametrize("options", [{}, {"check_unapplied": True}])
def test_a_database_of_a_newer_version_is_refused(options: dict[str, bool]) -> None:
    applied = MigrationRecorder.Migration.objects
    applied.create(app="experiments", name="0001_initial")  # an app that is gone by now
    call_command("migrate", verbosity=0, **options)
    applied.create(app="tasks", name="9999_of_tomorrow")
    with pytest.raises(CommandError, match=r"newer version .* not know tasks.9999_of_tomorrow. Run the newer one or"):
        call_command("migrate", verbosity=0, **options)


@pytest.mark.django_db(transaction=True)
def test_a_migration_outside_a_transaction_that_was_killed_is_begun_again() -> None:
    loader = MigrationLoader(connection)
    outside = [migration for migration in loader.disk_migrations.values() if not migration.atomic]
    assert len(outside) >= 4
    with connection.cursor() as cursor:
        cursor.execute(INVALID)
        for migration in outside:
            before = loader.project_state((migration.app_label, migration.name), at_end=False)
            with connection.schema_editor(atomic=False) as editor:
                migration.apply(before, editor)
        cursor.execute(VALID)
        assert cursor.fetchone() == (True,)
