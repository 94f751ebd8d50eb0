from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("operations", "0001_alarms"),
    ]

    operations = [
        migrations.CreateModel(
            name="ServerLook",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("provider_id", models.BigIntegerField(unique=True)),
                ("name", models.CharField(max_length=100)),
                ("projects", models.JSONField(default=list)),
                ("looked_at", models.DateTimeField()),
                ("away_since", models.DateTimeField(null=True)),
                ("words", models.CharField(blank=True, default="", max_length=500)),
                ("latency_ms", models.FloatField(null=True)),
            ],
        ),
    ]
