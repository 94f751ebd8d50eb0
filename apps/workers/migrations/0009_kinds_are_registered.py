"""Which kinds of workers there are is registered: an agent that a package adds is one of them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workers", "0008_what_the_last_comparison_of_base_weights_found")]

    operations = [migrations.AlterField(model_name="worker", name="kind", field=models.CharField(max_length=32))]
