"""All that came of each try that somebody asked for; how much runs may take, what they were made with, what they replay."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0010_settings_name_no_environment_without_a_world"),
        ("adapters", "0015_what_a_verdict_waits_for"),
        ("evals", "0012_a_gate_measures_on_what_is_chosen"),
        ("workers", "0009_kinds_are_registered"),
    ]

    operations = [
        migrations.CreateModel(
            name="TryRecord",
            fields=[
                (
                    "item_try",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="record",
                        serialize=False,
                        to="evals.itemtry",
                    ),
                ),
                ("text", models.TextField(blank=True)),
                ("answer", models.TextField(blank=True)),
                ("steps", models.JSONField(default=list)),
                ("messages", models.JSONField(default=list)),
                ("prompt_hash", models.CharField(max_length=32)),
                ("request", models.JSONField(default=dict)),
                ("sampling", models.JSONField(default=dict)),
                ("verification", models.JSONField(null=True)),
                ("error", models.TextField(blank=True)),
                ("served_by", models.CharField(blank=True, max_length=200)),
                ("finish_reason", models.CharField(blank=True, max_length=32)),
                ("turn_tokens", models.JSONField(default=list)),
                ("cached_tokens", models.PositiveIntegerField(default=0)),
                ("token_ids", models.BinaryField(default=b"")),
                ("logprobs", models.BinaryField(default=b"")),
            ],
        ),
        migrations.RemoveConstraint(
            model_name="evaluation",
            name="measured_once",
        ),
        migrations.AddField(
            model_name="evaluation",
            name="indices",
            field=models.JSONField(blank=True, db_default=[], default=list),
        ),
        migrations.AddField(
            model_name="evaluation",
            name="limits",
            field=models.JSONField(blank=True, db_default={}, default=dict),
        ),
        migrations.AddField(
            model_name="evaluation",
            name="made_with",
            field=models.JSONField(blank=True, db_default={}, default=dict),
        ),
        migrations.AddField(
            model_name="evaluation",
            name="replay_of",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="replays",
                to="evals.evaluation",
            ),
        ),
        migrations.AddField(
            model_name="evaluation",
            name="seconds",
            field=models.FloatField(db_default=0.0, default=0.0),
        ),
        migrations.AddField(
            model_name="itemtry",
            name="category",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        migrations.AddField(
            model_name="itemtry",
            name="completion_tokens",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="itemtry",
            name="cost_usd",
            field=models.DecimalField(decimal_places=8, max_digits=14, null=True),
        ),
        migrations.AddField(
            model_name="itemtry",
            name="prompt_tokens",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="itemtry",
            name="seconds",
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name="itemtry",
            name="turns",
            field=models.PositiveSmallIntegerField(null=True),
        ),
        migrations.AlterField(
            model_name="itemtry",
            name="cause",
            field=models.CharField(
                blank=True,
                choices=[
                    ("infrastructure", "Could not be asked or graded"),
                    ("unchecked", "Nothing says what is right"),
                    ("timeout", "Took longer than it may"),
                ],
                default="",
                max_length=16,
            ),
        ),
        migrations.AddConstraint(
            model_name="evaluation",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state__in", ["failed", "cancelled"]), _negated=True),
                fields=(
                    "worker",
                    "adapter",
                    "purpose",
                    "item_set",
                    "item_set_hash",
                    "tries",
                    "is_greedy",
                    "scale",
                    "seed",
                    "asked_hash",
                    "replay_of",
                ),
                name="measured_once",
                nulls_distinct=False,
            ),
        ),
    ]
