import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("adapters", "0002_a_canary_beside_what_serves"),
        ("workers", "0004_adapters_per_worker_or_person"),
    ]

    operations = [
        migrations.AddField(
            model_name="adapter",
            name="end_user",
            field=models.CharField(blank=True, default="", max_length=200),
        ),
        migrations.AddField(
            model_name="adapter",
            name="line_version",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="deployment",
            name="end_user",
            field=models.CharField(blank=True, default="", max_length=200),
        ),
        migrations.AlterField(
            model_name="deployment",
            name="worker",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="deployments", to="workers.worker"
            ),
        ),
    ]
