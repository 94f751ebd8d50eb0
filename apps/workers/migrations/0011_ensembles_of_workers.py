"""Workers of a project can be asked together."""

import django.core.validators
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0010_settings_name_no_environment_without_a_world"),
        ("workers", "0010_since_when_a_worker_has_its_base"),
    ]

    operations = [
        migrations.CreateModel(
            name="Ensemble",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "name",
                    models.CharField(
                        max_length=64,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9][a-z0-9_-]*$", "Lower-case letters, digits, - and _."
                            )
                        ],
                    ),
                ),
                ("members", models.JSONField(default=list)),
                ("wait_s", models.PositiveSmallIntegerField(default=30)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="ensembles", to="accounts.project"
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.UniqueConstraint(fields=("project", "name"), name="ensemble_name_is_unique"),
                    models.CheckConstraint(
                        condition=models.Q(("wait_s__gte", 1), ("wait_s__lte", 600)), name="ensemble_waits_1_to_600_s"
                    ),
                ],
            },
        ),
    ]
