from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("outbox", "0002_ended_segments_are_found_by_time"),
    ]

    operations = [
        migrations.AddField(
            model_name="segment",
            name="away_since",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddIndex(
            model_name="segment",
            index=models.Index(
                condition=models.Q(("away_since__isnull", False), ("state", "open")),
                fields=["project_id", "away_since"],
                name="segment_waits_for_server",
            ),
        ),
    ]
