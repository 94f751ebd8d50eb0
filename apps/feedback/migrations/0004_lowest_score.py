"""The least a scorer said stands on the review, so that a queue of a hundred thousand can be narrowed by it."""

from typing import Any

from django.db import migrations, models
from django.db.models import Min, OuterRef, Subquery


def write_lowest_scores(apps: Any, schema_editor: Any) -> None:
    """Fill it in for the reviews that wait."""
    said = apps.get_model("scoring", "StepScore").objects.filter(attempt__task=OuterRef("task"), step__isnull=True)
    lowest = said.order_by().values("attempt__task").annotate(lowest=Min("score")).values("lowest")
    waiting = apps.get_model("feedback", "Review").objects.filter(state="open", audience="human")
    waiting.update(lowest_score=Subquery(lowest))


class Migration(migrations.Migration):
    dependencies = [
        ("feedback", "0003_gold_items_and_undone_bulks"),
        ("scoring", "0001_initial"),
    ]

    operations = [
        migrations.AddField(model_name="review", name="lowest_score", field=models.FloatField(blank=True, null=True)),
        migrations.RunPython(write_lowest_scores, migrations.RunPython.noop),
    ]
