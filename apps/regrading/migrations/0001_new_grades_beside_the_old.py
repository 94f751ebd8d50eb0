"""Sets of new grades, and each new grade beside the old one."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0010_settings_name_no_environment_without_a_world"),
        ("evals", "0013_runs_keep_what_came_of_tries"),
        ("workers", "0009_kinds_are_registered"),
    ]

    operations = [
        migrations.CreateModel(
            name="Regrading",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "source",
                    models.CharField(
                        choices=[
                            ("run", "Tries of a run"),
                            ("attempts", "Attempts"),
                            ("reviews", "Reviewed attempts, beside what people said"),
                            ("rollouts", "Rollouts, beside their rewards"),
                        ],
                        max_length=16,
                    ),
                ),
                ("rule", models.JSONField()),
                ("graders", models.JSONField(default=list)),
                ("last_id", models.BigIntegerField()),
                ("side", models.FloatField(default=0.5)),
                (
                    "state",
                    models.CharField(
                        choices=[("queued", "Queued"), ("running", "Running"), ("done", "Done"), ("failed", "Failed")],
                        default="queued",
                        max_length=16,
                    ),
                ),
                ("planned", models.PositiveIntegerField()),
                ("graded", models.PositiveIntegerField(default=0)),
                ("unscored", models.PositiveIntegerField(default=0)),
                ("counts", models.JSONField(default=dict)),
                ("failure", models.TextField(blank=True)),
                ("asked_by", models.CharField(max_length=150)),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "evaluation",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="regradings",
                        to="evals.evaluation",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="regradings", to="accounts.project"
                    ),
                ),
                (
                    "worker",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="regradings",
                        to="workers.worker",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="Regrade",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("subject_id", models.BigIntegerField()),
                ("old", models.FloatField(null=True)),
                ("new", models.FloatField(null=True)),
                ("cause", models.CharField(blank=True, max_length=300)),
                ("details", models.JSONField(default=list)),
                (
                    "regrading",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="grades", to="regrading.regrading"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.AddIndex(
            model_name="regrading",
            index=models.Index(fields=["project", "-id"], name="regrading_by_project"),
        ),
        migrations.AddConstraint(
            model_name="regrade",
            constraint=models.UniqueConstraint(fields=("regrading", "subject_id"), name="one_new_grade_per_answer"),
        ),
        migrations.AddConstraint(
            model_name="regrade",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("cause", ""), ("new__isnull", False)),
                    models.Q(("new__isnull", True), models.Q(("cause", ""), _negated=True)),
                    _connector="OR",
                ),
                name="a_new_grade_or_a_cause",
            ),
        ),
    ]
