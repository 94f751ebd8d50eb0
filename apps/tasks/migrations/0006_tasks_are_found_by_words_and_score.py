"""Beside the work: an index on a big table is made without holding it up."""

from django.contrib.postgres.indexes import GinIndex
from django.db import migrations, models

from apps.base.indexing import AddIndexConcurrently
from apps.base.word_index import Words


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("tasks", "0005_attempts_may_be_cancelled")]

    operations = [
        AddIndexConcurrently(
            model_name="task", index=models.Index(fields=["project", "score", "id"], name="task_by_score")
        ),
        AddIndexConcurrently(
            model_name="task",
            index=GinIndex(
                Words("prompt", "answer"),
                condition=models.Q(state__in=("in_review", "done", "failed", "cancelled")),
                name="task_words",
            ),
        ),
    ]
