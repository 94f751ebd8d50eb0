import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workers", "0004_adapters_per_worker_or_person")]

    operations = [
        migrations.AddField(
            model_name="worker",
            name="learns_with",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.RESTRICT,
                related_name="learners",
                to="workers.worker",
            ),
        ),
        migrations.AddConstraint(
            model_name="worker",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("learns_with__isnull", True),
                    models.Q(("learns_with", models.F("pk")), _negated=True),
                    _connector="OR",
                ),
                name="nobody_learns_with_themselves",
            ),
        ),
    ]
