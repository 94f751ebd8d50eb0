"""Transaction numbers are a cluster's own: entries say in which epoch theirs was given.

Where a dump was restored before, what was written since has low numbers and no place in the chain: it becomes the
epoch after. The chain itself stays as it is.
"""

from typing import Any

import django.db.models.functions.datetime
from django.db import migrations, models

import apps.audit.models

FUNCTIONS = """
CREATE FUNCTION audit_current_epoch() RETURNS integer LANGUAGE plpgsql STABLE AS $$
DECLARE
    latest record;
BEGIN
    SELECT number, cluster INTO latest FROM audit_auditepoch ORDER BY number DESC LIMIT 1;
    IF latest.cluster = (pg_control_system()).system_identifier THEN
        RETURN latest.number;
    END IF;
    RETURN coalesce(latest.number, 0) + 1;  -- in which nobody has written yet
END $$;
CREATE FUNCTION audit_begin_epoch() RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    latest record;
BEGIN
    SELECT number, cluster INTO latest FROM audit_auditepoch ORDER BY number DESC LIMIT 1;
    IF latest.cluster = (pg_control_system()).system_identifier THEN
        RETURN latest.number;
    END IF;
    INSERT INTO audit_auditepoch (number, cluster)
    VALUES (coalesce(latest.number, 0) + 1, (pg_control_system()).system_identifier) ON CONFLICT DO NOTHING;
    RETURN coalesce(latest.number, 0) + 1;
END $$;
"""
DROP = "DROP FUNCTION audit_begin_epoch(); DROP FUNCTION audit_current_epoch();"
WITHOUT_A_PLACE = "NOT EXISTS (SELECT FROM audit_auditseal s WHERE s.entry_id = e.id)"
STRANDED = (
    "SELECT min(e.id) FROM audit_auditentry e, "  # noqa: S608
    "(SELECT xid, entry_id FROM audit_auditseal ORDER BY seq DESC LIMIT 1) AS last "
    f"WHERE (e.xid, e.id) < (last.xid, last.entry_id) AND {WITHOUT_A_PLACE}"
)
BEGIN_ANEW = f"UPDATE audit_auditentry e SET epoch = 2 WHERE id >= %s AND {WITHOUT_A_PLACE}"  # noqa: S608
FROM_THE_FUTURE = """
SELECT EXISTS (SELECT FROM audit_auditentry WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
"""
HERE = "(pg_control_system()).system_identifier"


def tell_epochs(migration_apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:

        def ask(statement: str) -> Any:
            cursor.execute(statement)
            return cursor.fetchone()[0]

        if not ask("SELECT EXISTS (SELECT FROM audit_auditentry)"):
            return
        stranded = ask(STRANDED)
        was_restored = stranded is not None or ask(FROM_THE_FUTURE)
        cursor.execute(f"INSERT INTO audit_auditepoch (number, cluster) SELECT 1, {0 if was_restored else HERE}")
        if stranded is not None:
            cursor.execute(f"INSERT INTO audit_auditepoch (number, cluster) SELECT 2, {HERE}")
            cursor.execute("ALTER TABLE audit_auditentry DISABLE TRIGGER USER")
            cursor.execute(BEGIN_ANEW, [stranded])
            cursor.execute("ALTER TABLE audit_auditentry ENABLE TRIGGER USER")


class Migration(migrations.Migration):
    dependencies = [("audit", "0002_found_by_kind_and_actor")]

    operations = [
        migrations.CreateModel(
            name="AuditEpoch",
            fields=[
                ("number", models.IntegerField(primary_key=True, serialize=False)),
                ("cluster", models.BigIntegerField()),
                ("began_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.RunSQL(FUNCTIONS, DROP),
        migrations.AddField("auditentry", "epoch", models.IntegerField(db_default=1)),
        migrations.AddField("auditseal", "epoch", models.IntegerField(default=1), preserve_default=False),
        migrations.RunPython(tell_epochs, migrations.RunPython.noop),
        migrations.AlterField("auditentry", "epoch", models.IntegerField(db_default=apps.audit.models.CurrentEpoch())),
        migrations.RemoveIndex("auditentry", "audit_by_transaction"),
        migrations.AddIndex("auditentry", models.Index(fields=["epoch", "xid", "id"], name="audit_by_place")),
    ]
