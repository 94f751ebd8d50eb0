"""Items of runs that other tools made are no panel of a gate, so their tasksets say where they come from."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("evals", "0013_runs_keep_what_came_of_tries")]

    operations = [
        migrations.AlterField(
            model_name="taskset",
            name="origin",
            field=models.CharField(
                choices=[
                    ("made", "Made by hand"),
                    ("own_work", "Own work, put aside as it came"),
                    ("imported", "Asked in runs of other tools"),
                ],
                default="made",
                max_length=16,
            ),
        ),
    ]
