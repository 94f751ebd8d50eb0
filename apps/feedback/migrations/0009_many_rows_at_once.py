from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("feedback", "0008_judgements_are_found_by_words")]

    operations = [
        migrations.AddField(
            model_name="bulkjudgement",
            name="action",
            field=models.CharField(
                choices=[
                    ("judge", "Judge reviews"),
                    ("assign", "Assign reviews"),
                    ("close", "Close reviews without a judgement"),
                    ("cancel", "Cancel tasks"),
                    ("replay", "Replay failed work"),
                    ("put_away", "Put failed work away"),
                ],
                db_default="judge",
                default="judge",
                max_length=16,
            ),
        ),
        migrations.AddField(
            model_name="bulkjudgement",
            name="chosen",
            field=models.JSONField(blank=True, db_default=[], default=list),
        ),
    ]
