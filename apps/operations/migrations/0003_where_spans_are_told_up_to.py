from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("operations", "0002_looks_at_model_servers"),
    ]

    operations = [
        migrations.CreateModel(
            name="SpanCursor",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("endpoint", models.CharField(max_length=500, unique=True)),
                ("epoch", models.IntegerField()),
                ("xid", models.BigIntegerField()),
                ("entry_id", models.BigIntegerField(default=0)),
                ("exchange_id", models.BigIntegerField()),
            ],
        ),
    ]
