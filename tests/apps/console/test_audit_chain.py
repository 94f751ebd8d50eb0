"""What the audit's page says of its chain."""

import pytest
from django.db import connection
from django.urls import reverse

from apps.audit.chain import NEWEST, check_newest, seal_entries
from apps.audit.models import AuditEntry
from tests.apps.console.builders import sign_in
from tests.e2e.scenery import build_scene


@pytest.mark.django_db(transaction=True)
def test_the_chains_status_is_said_and_a_changed_entry_shows() -> None:
    scene = build_scene(updates=1)
    client, page = sign_in(scene.alice), reverse("console:audit", args=("desk",))
    assert "Nothing is sealed yet" in client.get(page).content.decode()
    seal_entries()
    newest = check_newest()
    assert newest is not None
    assert (newest.report.faults, newest.report.sealed) == ([], min(NEWEST, AuditEntry.objects.count()))
    assert f"Sealed up to entry {newest.entry_id}" in client.get(page).content.decode()
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE audit_auditentry SET actor = 'user:nobody' WHERE id = %s", [newest.entry_id])
        cursor.execute("SET session_replication_role = DEFAULT")
    broken = check_newest()
    assert broken is not None
    assert len(broken.report.faults) == 1
    assert "The chain is broken" in client.get(page).content.decode()
