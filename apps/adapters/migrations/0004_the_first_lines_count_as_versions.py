"""Until now every worker had one line, in which an adapter's number is its version."""

from typing import Any

from django.db import migrations
from django.db.models import F

BATCH = 1000


def fill(apps: Any, schema_editor: Any) -> None:
    adapters = apps.get_model("adapters", "Adapter").objects.using(schema_editor.connection.alias)
    while found := list(adapters.filter(line_version=None).order_by("pk").values_list("pk", flat=True)[:BATCH]):
        adapters.filter(pk__in=found).update(line_version=F("version"))


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("adapters", "0003_lines_of_adapters")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop, elidable=True)]
