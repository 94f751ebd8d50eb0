from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("workers", "0007_fallbacks_of_a_worker"),
    ]

    operations = [
        migrations.AddField(
            model_name="worker",
            name="base_compared",
            field=models.JSONField(blank=True, db_default={}, default=dict, editable=False),
        ),
    ]
