from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tasks", "0008_the_same_words_are_found_again")]

    operations = [migrations.AddField(model_name="attempt", name="verification", field=models.JSONField(null=True))]
