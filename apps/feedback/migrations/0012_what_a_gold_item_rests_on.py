import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("feedback", "0011_answers_side_by_side"),
    ]

    operations = [
        migrations.AddField(
            model_name="golditem",
            name="reference",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="gold_items",
                to="feedback.feedback",
            ),
        ),
    ]
