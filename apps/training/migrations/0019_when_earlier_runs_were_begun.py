from typing import Any

from django.db import migrations, models

BATCH = 1000


def fill(apps: Any, schema_editor: Any) -> None:
    """When the newest attempt began: when an earlier one did is known of the last day alone, and not asked of these."""
    runs = apps.get_model("training", "TrainingRun").objects
    unknown = runs.filter(begun_at=None, started_at__isnull=False)
    while some := list(unknown.order_by("pk").values_list("pk", flat=True)[:BATCH]):
        runs.filter(pk__in=some).update(begun_at=models.F("started_at"))


class Migration(migrations.Migration):
    dependencies = [
        ("training", "0018_when_a_run_was_begun"),
    ]

    operations = [
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
