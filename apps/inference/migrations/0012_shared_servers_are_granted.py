"""A shared model server is for the projects that it is granted to."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0006_members_are_invited_and_projects_are_a_right"),
        ("inference", "0011_how_answers_were_sampled"),
    ]

    operations = [
        migrations.AddField(
            model_name="provider",
            name="granted_to",
            field=models.CharField(
                choices=[("listed", "Projects with a grant"), ("everyone", "Every project")],
                db_default="listed",
                default="listed",
                max_length=8,
            ),
        ),
        migrations.CreateModel(
            name="ProviderGrant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("tokens_per_day", models.PositiveBigIntegerField(blank=True, null=True)),
                ("usd_per_month", models.FloatField(blank=True, null=True)),
                ("granted_by", models.CharField(max_length=160)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="provider_grants",
                        to="accounts.project",
                    ),
                ),
                (
                    "provider",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="grants", to="inference.provider"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("provider", "project"), name="provider_is_granted_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("tokens_per_day__isnull", True), ("tokens_per_day__gte", 1), _connector="OR"),
                            models.Q(("usd_per_month__isnull", True), ("usd_per_month__gt", 0), _connector="OR"),
                        ),
                        name="grant_allows_something",
                    ),
                ],
            },
        ),
    ]
