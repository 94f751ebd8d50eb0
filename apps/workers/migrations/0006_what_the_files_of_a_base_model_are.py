from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workers", "0005_learn_with_another_worker")]

    operations = [
        migrations.AddField(
            model_name="worker",
            name="base_facts",
            field=models.JSONField(blank=True, db_default={}, default=dict, editable=False),
        ),
    ]
