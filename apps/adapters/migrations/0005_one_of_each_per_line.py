from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("adapters", "0004_the_first_lines_count_as_versions")]

    operations = [
        migrations.AlterField(
            model_name="adapter",
            name="line_version",
            field=models.PositiveIntegerField(),
        ),
        migrations.RemoveConstraint(model_name="adapter", name="one_deployed_adapter_per_worker"),
        migrations.RemoveConstraint(model_name="adapter", name="one_anchor_per_worker"),
        migrations.AddConstraint(
            model_name="adapter",
            constraint=models.UniqueConstraint(
                fields=("worker", "end_user", "line_version"), name="line_version_is_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="adapter",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "deployed")),
                fields=("worker", "end_user"),
                name="one_deployed_adapter_per_line",
            ),
        ),
        migrations.AddConstraint(
            model_name="adapter",
            constraint=models.UniqueConstraint(
                condition=models.Q(("is_anchor", True)), fields=("worker", "end_user"), name="one_anchor_per_line"
            ),
        ),
        migrations.AddConstraint(
            model_name="deployment",
            constraint=models.UniqueConstraint(fields=("worker", "end_user"), name="one_deployment_per_line"),
        ),
    ]
