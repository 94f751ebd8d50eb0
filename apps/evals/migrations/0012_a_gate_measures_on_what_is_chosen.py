"""Somebody may choose what a gate measures on."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("evals", "0011_benchmarks"),
        ("workers", "0009_kinds_are_registered"),
    ]

    operations = [
        migrations.CreateModel(
            name="ChosenPanel",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "taskset",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="evals.taskset"
                    ),
                ),
                (
                    "worker",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="chosen_panel", to="workers.worker"
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
    ]
