import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0009_own_work_is_held_out"),
        ("adapters", "0012_what_waits_for_the_end_of_a_trial"),
        ("evals", "0002_tasksets_and_their_items"),
        ("workers", "0008_what_the_last_comparison_of_base_weights_found"),
    ]

    operations = [
        migrations.CreateModel(
            name="Evaluation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "purpose",
                    models.CharField(
                        choices=[
                            ("panel", "Held-out panel"),
                            ("fresh", "Tasks drawn anew"),
                            ("repeat", "The panel once more"),
                            ("skills", "Skills"),
                            ("scale", "Another strength"),
                            ("more", "Further tasks"),
                            ("report", "Asked for"),
                        ],
                        max_length=16,
                    ),
                ),
                ("item_set", models.CharField(max_length=200)),
                ("item_set_hash", models.CharField(blank=True, max_length=32)),
                (
                    "split",
                    models.CharField(
                        blank=True,
                        choices=[("train", "Train"), ("held_out", "Held out"), ("skills", "Skills")],
                        default="",
                        max_length=16,
                    ),
                ),
                ("tries", models.PositiveSmallIntegerField(default=1)),
                ("is_greedy", models.BooleanField(default=False)),
                ("scale", models.FloatField(default=1.0)),
                ("seed", models.BigIntegerField(default=0)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("paused", "Paused"),
                            ("done", "Done"),
                            ("cancelled", "Cancelled"),
                            ("failed", "Failed"),
                        ],
                        default="queued",
                        max_length=16,
                    ),
                ),
                ("planned", models.PositiveIntegerField()),
                ("played", models.PositiveIntegerField(default=0)),
                ("unscored", models.PositiveIntegerField(default=0)),
                ("items", models.PositiveIntegerField(default=0)),
                ("mean_outcome", models.FloatField(null=True)),
                ("mean_step_score", models.FloatField(null=True)),
                ("profile", models.JSONField(blank=True, default=dict)),
                ("failure", models.TextField(blank=True, default="")),
                ("asked_by", models.CharField(blank=True, default="", max_length=150)),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "adapter",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="evaluations",
                        to="adapters.adapter",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="evaluations", to="accounts.project"
                    ),
                ),
                (
                    "taskset",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="evaluations",
                        to="evals.taskset",
                    ),
                ),
                (
                    "worker",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="evaluations", to="workers.worker"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ItemTry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("place", models.PositiveIntegerField()),
                ("key", models.BigIntegerField()),
                ("number", models.PositiveSmallIntegerField(default=0)),
                ("outcome", models.FloatField(null=True)),
                ("step_score", models.FloatField(null=True)),
                (
                    "cause",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("infrastructure", "Could not be asked or graded"),
                            ("unchecked", "Nothing says what is right"),
                        ],
                        default="",
                        max_length=16,
                    ),
                ),
                ("reason", models.CharField(blank=True, default="", max_length=300)),
                ("traits", models.JSONField(null=True)),
                ("grader", models.CharField(blank=True, default="", max_length=64)),
                (
                    "evaluation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="item_tries", to="evals.evaluation"
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="evaluation",
            index=models.Index(fields=["project", "-id"], name="evaluation_by_project"),
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
                ),
                name="measured_once",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="itemtry",
            constraint=models.UniqueConstraint(fields=("evaluation", "place", "number"), name="one_row_per_try"),
        ),
        migrations.AddConstraint(
            model_name="itemtry",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("cause", ""), ("outcome__isnull", False)),
                    models.Q(("outcome__isnull", True), models.Q(("cause", ""), _negated=True)),
                    _connector="OR",
                ),
                name="a_try_has_an_outcome_or_a_cause",
            ),
        ),
    ]
