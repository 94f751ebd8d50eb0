"""A webhook without a project is the installation's: alarms go there."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("webhooks", "0003_waits_end")]

    operations = [
        migrations.AlterField(
            model_name="webhook",
            name="project",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.CASCADE, related_name="webhooks", to="accounts.project"
            ),
        ),
        migrations.AddConstraint(
            model_name="webhook",
            constraint=models.UniqueConstraint(
                condition=models.Q(("project__isnull", True)), fields=("name",), name="one_webhook_of_the_installation"
            ),
        ),
    ]
