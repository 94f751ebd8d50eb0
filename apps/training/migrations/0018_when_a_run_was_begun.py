from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("training", "0017_past_attempts_are_kept"),
    ]

    operations = [
        migrations.AddField(
            model_name="trainingrun",
            name="begun_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
