from django.db import migrations, models

PAGE = 5000


def fill(apps, schema_editor):
    """What was built before goes on as it was: its hint counts as its judgement does."""
    rows = apps.get_model("rollouts", "Rollout").objects.filter(hint__isnull=False, hint_weight=None)
    while ids := list(rows.order_by("pk").values_list("pk", flat=True)[:PAGE]):
        rows.filter(pk__in=ids).update(hint_weight=models.F("weight"))


class Migration(migrations.Migration):
    dependencies = [("rollouts", "0007_trust_in_hints")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
