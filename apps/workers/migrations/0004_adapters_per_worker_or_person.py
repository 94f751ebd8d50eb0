from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workers", "0003_an_agent_on_an_openclaw")]

    operations = [
        migrations.AddField(
            model_name="worker",
            name="adapters_per",
            field=models.CharField(
                choices=[("worker", "One for everybody"), ("user", "One for each person it talks with")],
                default="worker",
                max_length=8,
            ),
        ),
        migrations.AddField(
            model_name="worker",
            name="user_batch_tasks",
            field=models.PositiveIntegerField(
                blank=True, help_text="Tasks that fill a batch of one person; empty: the project's.", null=True
            ),
        ),
        migrations.AddConstraint(
            model_name="worker",
            constraint=models.CheckConstraint(
                condition=models.Q(("user_batch_tasks__isnull", True), ("user_batch_tasks__gte", 1), _connector="OR"),
                name="user_batch_tasks_is_positive",
            ),
        ),
    ]
