from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("rollouts", "0002_the_latest_unusable")]

    operations = [
        migrations.AddField(
            model_name="batch",
            name="end_user",
            field=models.CharField(blank=True, default="", max_length=200),
        ),
        migrations.RemoveConstraint(model_name="batch", name="one_open_batch_per_worker"),
        migrations.AddConstraint(
            model_name="batch",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "open")), fields=("worker", "end_user"), name="one_open_batch_per_line"
            ),
        ),
    ]
