from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workers", "0009_kinds_are_registered")]

    operations = [
        migrations.AddField(
            model_name="worker",
            name="base_since",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        )
    ]
