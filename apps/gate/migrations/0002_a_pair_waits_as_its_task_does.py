"""What a verdict waits for stands at its adapter; whether a pair waits, at its task."""

from typing import Any

from django.db import migrations

WAITS_FOR = "people, who compare its answers with those of what serves"


def mark_adapters(apps: Any, schema_editor: Any) -> None:
    pairs = apps.get_model("gate", "AnswerPair").objects.filter(is_open=True)
    waiting = apps.get_model("adapters", "Adapter").objects.filter(pk__in=pairs.values("adapter"), waits_for="")
    waiting.update(waits_for=WAITS_FOR)


def mark_pairs(apps: Any, schema_editor: Any) -> None:
    pairs = apps.get_model("gate", "AnswerPair").objects.filter(said=None, by="", adapter__waits_for=WAITS_FOR)
    pairs.update(is_open=True)
    apps.get_model("adapters", "Adapter").objects.filter(waits_for=WAITS_FOR).update(waits_for="")


class Migration(migrations.Migration):
    dependencies = [("adapters", "0015_what_a_verdict_waits_for"), ("gate", "0001_pairs_of_answers")]

    operations = [
        migrations.RunPython(mark_adapters, mark_pairs),
        migrations.RemoveIndex("answerpair", "open_answer_pair"),
        migrations.RemoveField("answerpair", "is_open"),
    ]
