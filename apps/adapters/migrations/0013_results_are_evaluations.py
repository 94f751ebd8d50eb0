from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("adapters", "0012_what_waits_for_the_end_of_a_trial"),
        ("evals", "0004_results_become_evaluations"),
    ]

    operations = [
        migrations.DeleteModel(
            name="PanelResult",
        ),
        migrations.DeleteModel(
            name="SideResult",
        ),
    ]
