from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("scoring", "0003_reward_models_that_are_barred"),
        ("inference", "0013_who_uses_a_shared_server_may"),  # reads the table
    ]

    operations = [migrations.DeleteModel(name="Judge")]
