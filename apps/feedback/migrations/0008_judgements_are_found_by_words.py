"""Beside the work: an index on a big table is made without holding it up."""

from django.contrib.postgres.indexes import GinIndex
from django.db import migrations, models

from apps.base.indexing import AddIndexConcurrently
from apps.base.word_index import Words


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("feedback", "0007_who_appeals")]

    operations = [
        AddIndexConcurrently(
            model_name="feedback",
            index=GinIndex(Words("text", "edited_answer", "hint_text"), name="feedback_words"),
        ),
        AddIndexConcurrently(
            model_name="stepfeedback",
            index=GinIndex(Words("comment"), condition=~models.Q(comment=""), name="step_feedback_words"),
        ),
    ]
