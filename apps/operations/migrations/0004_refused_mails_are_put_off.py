from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("operations", "0003_where_spans_are_told_up_to"),
    ]

    operations = [
        migrations.AddField(
            model_name="alarm",
            name="mail_tries",
            field=models.PositiveSmallIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="alarm",
            name="mail_after",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="alarm",
            name="mail_fault",
            field=models.CharField(blank=True, db_default="", default="", max_length=500),
        ),
    ]
