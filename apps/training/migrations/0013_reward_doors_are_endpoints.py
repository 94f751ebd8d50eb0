"""The model has another name; its table stays as it is."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("training", "0012_runs_have_names_comments_and_tags")]

    operations = [
        migrations.AlterModelTable(name="rewarddoor", table="training_rewarddoor"),
        migrations.RenameModel(old_name="RewardDoor", new_name="RewardEndpoint"),
        migrations.AlterField(
            model_name="rewardendpoint",
            name="run",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="reward_endpoints",
                to="training.trainingrun",
            ),
        ),
    ]
