"""`manage.py migrate`: a version that is put back does not go on with what a newer one migrated."""

import pytest
from django.core.management import CommandError, call_command
from django.db.migrations.recorder import MigrationRecorder

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("options", [{}, {"check_unapplied": True}])
def test_a_database_of_a_newer_version_is_refused(options: dict[str, bool]) -> None:
    applied = MigrationRecorder.Migration.objects
    applied.create(app="experiments", name="0001_initial")  # an app that is gone by now
    call_command("migrate", verbosity=0, **options)
    applied.create(app="tasks", name="9999_of_tomorrow")
    with pytest.raises(CommandError, match=r"newer version .* not know tasks.9999_of_tomorrow. Run the newer one or"):
        call_command("migrate", verbosity=0, **options)
