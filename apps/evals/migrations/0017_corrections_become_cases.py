"""Corrections that must hold: items in tasksets of their own, and whose answers they corrected."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("adapters", "0015_what_a_verdict_waits_for"),
        ("evals", "0016_people_grade_tries"),
        ("workers", "0009_kinds_are_registered"),
    ]

    operations = [
        migrations.AlterField(
            model_name="taskset",
            name="origin",
            field=models.CharField(
                choices=[
                    ("made", "Made by hand"),
                    ("own_work", "Own work, put aside as it came"),
                    ("imported", "Asked in runs of other tools"),
                    ("regressions", "Corrections that must hold"),
                ],
                default="made",
                max_length=16,
            ),
        ),
        migrations.CreateModel(
            name="RegressionCase",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("feedback_id", models.BigIntegerField(blank=True, null=True)),
                ("kept_by", models.CharField(max_length=160)),
                (
                    "adapter",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="regression_cases",
                        to="adapters.adapter",
                    ),
                ),
                (
                    "grade",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="regression_cases",
                        to="evals.humangrade",
                    ),
                ),
                (
                    "item",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="regression_cases", to="evals.item"
                    ),
                ),
                (
                    "worker",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="regression_cases",
                        to="workers.worker",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("item", "worker", "adapter"), name="one_case_per_item_and_model", nulls_distinct=False
                    )
                ],
            },
        ),
    ]
