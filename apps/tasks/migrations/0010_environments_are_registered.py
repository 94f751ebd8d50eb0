"""Which environments there are is registered, no rule of the table: a world that a package adds is one of them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tasks", "0009_a_verification_is_kept")]

    operations = [
        migrations.RemoveConstraint(model_name="task", name="task_environment_is_known"),
        migrations.AlterField(model_name="task", name="environment", field=models.CharField(max_length=32)),
    ]
