"""A message that an address asked to hold back for centuries is due again: years from 10000 on cannot even be read."""

from django.db import migrations

BRING_BACK = """
    UPDATE webhooks_delivery SET next_at = now() + interval '1 day' WHERE next_at > now() + interval '31 days'
"""


class Migration(migrations.Migration):
    dependencies = [("webhooks", "0002_cursors_know_their_epoch")]

    operations = [migrations.RunSQL(BRING_BACK, migrations.RunSQL.noop)]
