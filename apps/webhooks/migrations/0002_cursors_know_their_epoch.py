"""A cursor's transaction number is one of an epoch of the audit."""

from typing import Any

from django.db import migrations, models


def place_cursors(apps: Any, schema_editor: Any) -> None:
    """Where a dump was restored before, who was made since has numbers of the cluster it was restored into."""
    first = apps.get_model("audit", "AuditEntry").objects.filter(epoch=2).order_by("pk").first()
    webhooks = apps.get_model("webhooks", "Webhook").objects
    webhooks.update(cursor_epoch=1)
    if first is not None:
        webhooks.filter(created_at__gte=first.at).update(cursor_epoch=2)


class Migration(migrations.Migration):
    dependencies = [("webhooks", "0001_webhooks_and_deliveries"), ("audit", "0003_epochs")]

    operations = [
        migrations.AddField("webhook", "cursor_epoch", models.IntegerField(default=0)),
        migrations.RunPython(place_cursors, migrations.RunPython.noop),
    ]
