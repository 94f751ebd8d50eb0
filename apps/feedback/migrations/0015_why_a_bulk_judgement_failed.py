from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("feedback", "0014_what_programs_decided_is_no_persons_word")]

    operations = [
        migrations.AddField(
            model_name="bulkjudgement",
            name="failure",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="bulkjudgement",
            name="state",
            field=models.CharField(
                choices=[
                    ("running", "Running"),
                    ("done", "Done"),
                    ("cancelled", "Cancelled"),
                    ("undoing", "Being undone"),
                    ("undone", "Undone"),
                    ("failed", "Failed"),
                ],
                default="running",
                max_length=16,
            ),
        ),
    ]
