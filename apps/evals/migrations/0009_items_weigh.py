"""A try says how much its item counts, and an evaluation how many items of equal weight say as much."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("evals", "0008_one_hash_of_what_is_asked")]

    operations = [
        migrations.AddField("itemtry", "weight", models.FloatField(db_default=1.0, default=1.0)),
        migrations.AddField("evaluation", "effective_items", models.FloatField(null=True)),
    ]
