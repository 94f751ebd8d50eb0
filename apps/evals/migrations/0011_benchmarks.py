"""Benchmarks as projects have them; items say what category they are of."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0010_settings_name_no_environment_without_a_world"),
        ("evals", "0010_capability_is_measured"),
    ]

    operations = [
        migrations.AddField(
            model_name="item",
            name="category",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        migrations.CreateModel(
            name="Benchmark",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("name", models.CharField(max_length=100)),
                ("version", models.PositiveIntegerField(default=1)),
                ("entry", models.CharField(max_length=100)),
                ("entry_version", models.CharField(max_length=32)),
                (
                    "split",
                    models.CharField(
                        choices=[("train", "Train"), ("held_out", "Held out"), ("skills", "Skills")],
                        default="held_out",
                        max_length=16,
                    ),
                ),
                ("grader", models.CharField(blank=True, max_length=120)),
                ("template", models.TextField(blank=True)),
                ("tries", models.PositiveSmallIntegerField(default=1)),
                ("licence", models.CharField(max_length=100)),
                ("needs", models.JSONField(blank=True, default=list)),
                ("source", models.CharField(max_length=200)),
                ("content_hash", models.CharField(max_length=64)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="benchmarks", to="accounts.project"
                    ),
                ),
                (
                    "taskset",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="benchmarks", to="evals.taskset"
                    ),
                ),
            ],
            options={
                "ordering": ["name", "-version"],
            },
        ),
        migrations.AddField(
            model_name="evaluation",
            name="benchmark",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="evaluations",
                to="evals.benchmark",
            ),
        ),
        migrations.AddConstraint(
            model_name="benchmark",
            constraint=models.UniqueConstraint(
                fields=("project", "name", "version"), name="benchmark_version_is_unique"
            ),
        ),
    ]
