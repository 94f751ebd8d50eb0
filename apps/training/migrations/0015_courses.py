"""Courses: a worker learns a benchmark, round by round."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0010_settings_name_no_environment_without_a_world"),
        ("evals", "0012_a_gate_measures_on_what_is_chosen"),
        ("training", "0014_a_place_has_no_fence"),
        ("workers", "0009_kinds_are_registered"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Course",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("rounds_wanted", models.PositiveSmallIntegerField()),
                ("tasks_a_round", models.PositiveSmallIntegerField()),
                ("group_size", models.PositiveSmallIntegerField()),
                ("patience", models.PositiveSmallIntegerField()),
                ("backend", models.CharField(blank=True, default="", max_length=16)),
                ("recipe", models.JSONField(blank=True, default=dict)),
                ("rule", models.JSONField()),
                ("seed", models.BigIntegerField(default=0)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("running", "Running"),
                            ("paused", "Paused"),
                            ("done", "Done"),
                            ("cancelled", "Cancelled"),
                            ("failed", "Failed"),
                        ],
                        default="running",
                        max_length=16,
                    ),
                ),
                ("reason", models.CharField(blank=True, default="", max_length=500)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "benchmark",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="courses", to="evals.benchmark"
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="courses", to="accounts.project"
                    ),
                ),
                (
                    "started_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "worker",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="courses", to="workers.worker"
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="CourseRound",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("number", models.PositiveSmallIntegerField()),
                ("items", models.JSONField()),
                ("choice", models.JSONField()),
                ("results", models.JSONField(blank=True, default=dict)),
                ("is_better", models.BooleanField(null=True)),
                ("words", models.CharField(blank=True, default="", max_length=500)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "course",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="rounds", to="training.course"
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="course_rounds",
                        to="training.trainingrun",
                    ),
                ),
            ],
            options={
                "ordering": ["course", "number"],
            },
        ),
        migrations.AddConstraint(
            model_name="course",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state__in", ["running", "paused"])),
                fields=("worker",),
                name="one_course_per_worker",
            ),
        ),
        migrations.AddConstraint(
            model_name="courseround",
            constraint=models.UniqueConstraint(fields=("course", "number"), name="one_round_per_number"),
        ),
    ]
