"""Which environments there are is registered, no rule of the table: a world that a package adds is one of them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tasks", "0008_the_same_words_are_found_again")]

    operations = [
        migrations.RemoveConstraint(model_name="task", name="task_environment_is_known"),
        migrations.AlterField(model_name="task", name="environment", field=models.CharField(max_length=32)),
    ]
