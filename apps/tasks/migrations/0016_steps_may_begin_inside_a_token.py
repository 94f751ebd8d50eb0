from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tasks", "0015_a_task_is_part_of_an_earlier_one"),
    ]

    operations = [
        migrations.AddField(
            model_name="step",
            name="token_overlap",
            field=models.PositiveIntegerField(null=True),
        ),
    ]
