from django.db import migrations

PAGE = 1000
REASON = "sequences of tokens: wanted one"


def take_back(apps, schema_editor):
    """What was kept out because its attempt is several sequences of tokens can be told now, and waits again."""
    for name in ("PreferencePair", "Demonstration"):
        rows = apps.get_model("rollouts", name).objects
        while ids := list(rows.filter(unusable_reason__endswith=REASON).values_list("pk", flat=True)[:PAGE]):
            rows.filter(pk__in=ids).update(unusable_reason="")


class Migration(migrations.Migration):
    dependencies = [("rollouts", "0005_what_is_learnt_of_imports")]

    operations = [migrations.RunPython(take_back, migrations.RunPython.noop)]
