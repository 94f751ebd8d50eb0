from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("training", "0010_attempts_that_fell_silent_are_counted"),
    ]

    operations = [
        migrations.AddField(
            model_name="trainingrun",
            name="untaken_since",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
