from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("evals", "0009_items_weigh")]

    operations = [
        migrations.AlterField(
            "evaluation",
            "purpose",
            models.CharField(
                choices=[
                    ("panel", "Held-out panel"),
                    ("fresh", "Tasks drawn anew"),
                    ("repeat", "The panel once more"),
                    ("skills", "Skills"),
                    ("scale", "Another strength"),
                    ("more", "Further tasks"),
                    ("capability", "What the base model can do besides"),
                    ("report", "Asked for"),
                ],
                max_length=16,
            ),
        ),
    ]
