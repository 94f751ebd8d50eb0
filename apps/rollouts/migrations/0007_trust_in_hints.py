from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("rollouts", "0006_pairs_of_several_sequences")]

    operations = [
        migrations.AddField(
            model_name="rollout",
            name="hint_weight",
            field=models.FloatField(blank=True, null=True),
        ),
    ]
