"""A database moved to another cluster, whose transactions are numbered anew: nothing stays without a place, or is told
twice or never."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from django.apps import apps as django_apps
from django.db import connection

from apps.accounts.models import Member, Project, Role
from apps.api.views.records import after_entry
from apps.audit.chain import seal_entries, verify_chain
from apps.audit.models import AuditEntry, AuditEpoch, AuditSeal
from apps.audit.services import record
from apps.webhooks.enqueueing import enqueue_all
from apps.webhooks.models import Delivery, Webhook
from apps.webhooks.services import create_webhook
from tests.factories import make_project, make_user
from tests.support.clusters import (
    dump_and_restore,
    make_database,
    own_address,
    running_cluster,
    use_up_transactions,
    working_on,
)

NOWHERE = "http://127.0.0.1:9/"
COLUMNS = (("audit_auditentry", "epoch"), ("audit_auditseal", "epoch"), ("webhooks_webhook", "cursor_epoch"))
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.thorough]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address


@pytest.fixture
def shop() -> Project:
    shop = make_project()
    owner = make_user("olga", is_superuser=True)
    Member.objects.create(project=shop, user=owner, role=Role.OWNER)
    create_webhook(project=shop, url=NOWHERE, by=owner, allow_private=True)
    return shop


def say(shop: Project, count: int) -> list[int]:
    return [record("task.done", subject=shop, by="test", project_id=shop.pk).pk for _ in range(count)]


def seal_all() -> int:
    return sum(iter(seal_entries, 0))


def told() -> list[int | None]:
    enqueue_all()
    return list(Delivery.objects.order_by("pk").values_list("entry_id", flat=True))


def test_after_a_restore_into_a_fresh_cluster_the_chain_goes_on_and_webhooks_are_told_each_entry_once(
    shop: Project, cluster: str, tmp_path: Path
) -> None:
    use_up_transactions(3000)
    old = say(shop, 5)
    seal_all()
    assert told() == old
    waiting = say(shop, 2)  # committed, without a place, told to nobody
    head = AuditSeal.objects.latest("seq")
    dump_and_restore(own_address(), there := make_database(cluster, "restored"), tmp_path / "dump")

    with working_on(there):
        assert verify_chain().faults == []
        new = say(shop, 5)
        assert AuditEntry.objects.get(pk=new[0]).xid < head.xid  # the trap
        assert seal_all() == 7
        report = verify_chain()
        assert (report.faults, report.unsealed) == ([], 0)
        places = AuditSeal.objects.filter(seq__gt=head.seq).order_by("seq")
        assert list(places.values_list("entry_id", flat=True)) == waiting + new
        assert places[0].previous_hash == head.hash
        assert told() == old + waiting + new
        assert [row.number for row in AuditEpoch.objects.order_by("number")] == [1, 2]
        everything = [entry.pk for entry in after_entry(AuditEntry.objects.all(), old[-1])]
        assert everything == waiting + new
        more = say(shop, 1)
        assert (seal_all(), told()[-1], AuditEpoch.objects.count()) == (1, more[0], 2)

    # and back again, where the numbers of the first epoch were given
    dump_and_restore(there, back := make_database(own_address(), "brought_back"), tmp_path / "dump_back")
    with working_on(back):
        last = say(shop, 3)
        assert (seal_all(), verify_chain().faults) == (3, [])
        assert told() == old + waiting + new + more + last
        assert AuditEpoch.objects.count() == 3


def test_a_webhook_made_after_a_move_is_told_what_happens_from_then_on(
    shop: Project, cluster: str, tmp_path: Path
) -> None:
    use_up_transactions(3000)
    say(shop, 2)
    dump_and_restore(own_address(), there := make_database(cluster, "late"), tmp_path / "dump")
    with working_on(there):
        Webhook.objects.all().delete()
        made, _ = create_webhook(project=shop, url=NOWHERE, by=make_user("ann", is_superuser=True), allow_private=True)
        assert made.cursor_epoch == 2
        new = say(shop, 1)
        assert told() == new


def test_a_slipped_in_entry_of_an_epoch_that_is_over_is_found(shop: Project, cluster: str, tmp_path: Path) -> None:
    use_up_transactions(3000)
    say(shop, 2)
    seal_all()
    dump_and_restore(own_address(), there := make_database(cluster, "tampered"), tmp_path / "dump")
    with working_on(there):
        say(shop, 2)
        seal_all()
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO audit_auditentry (kind, subject_type, actor, payload, xid, epoch) "
                "VALUES ('task.done', '', 'x', '{}', 1, 1)"
            )
        assert any("have no place in it" in fault for fault in verify_chain().faults)


def forget_epochs() -> None:
    """The database as the migration finds it: all entries, seals and cursors in one epoch, of no cluster."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        for table, column in COLUMNS:
            cursor.execute(f"UPDATE {table} SET {column} = 1")
        cursor.execute("DELETE FROM audit_auditepoch")
        cursor.execute("SET session_replication_role = DEFAULT")


@pytest.mark.parametrize("is_elsewhere", [True, False])
def test_an_installation_that_was_restored_by_hand_before_there_were_epochs_is_healed(
    shop: Project, cluster: str, tmp_path: Path, is_elsewhere: bool
) -> None:
    tell_epochs = import_module("apps.audit.migrations.0003_epochs").tell_epochs
    place_cursors = import_module("apps.webhooks.migrations.0002_cursors_know_their_epoch").place_cursors
    use_up_transactions(3000)
    old = say(shop, 4)
    seal_all()
    assert told() == old
    there = make_database(cluster if is_elsewhere else own_address(), "before_epochs")
    dump_and_restore(own_address(), there, tmp_path / "dump")
    with working_on(there):
        new = say(shop, 3)
        forget_epochs()
        if is_elsewhere:
            assert seal_all() == 0  # the trap
        with connection.schema_editor() as editor:
            tell_epochs(django_apps, editor)
            place_cursors(django_apps, editor)
        assert AuditEpoch.objects.count() == (2 if is_elsewhere else 1)
        new += say(shop, 1)
        assert seal_all() == 4
        assert (verify_chain().faults, told()) == ([], old + new)
