from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("feedback", "0012_what_a_gold_item_rests_on"),
    ]

    operations = [
        migrations.AddField(
            model_name="rowimport",
            name="failure",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="rowimport",
            name="state",
            field=models.CharField(
                choices=[("running", "Running"), ("done", "Done"), ("failed", "Failed")],
                default="running",
                max_length=16,
            ),
        ),
    ]
