"""Beside the work: an index on a big table is made without holding it up."""

from django.contrib.postgres.indexes import GinIndex
from django.db import migrations, models

from apps.base.indexing import AddIndexConcurrently
from apps.base.word_index import MessageContents, Words


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("inference", "0015_answers_their_agent_deleted")]

    operations = [
        AddIndexConcurrently(
            model_name="exchange",
            index=GinIndex(
                Words("text", MessageContents("messages")),
                condition=models.Q(session__isnull=False),
                name="exchange_words",
            ),
        ),
    ]
