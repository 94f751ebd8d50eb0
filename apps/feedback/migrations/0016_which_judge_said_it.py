from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("feedback", "0015_why_a_bulk_judgement_failed")]

    operations = [
        migrations.AddField(
            model_name="feedback",
            name="judge",
            field=models.JSONField(blank=True, db_default={}, default=dict),
        ),
    ]
