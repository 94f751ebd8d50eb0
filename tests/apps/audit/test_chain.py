"""The chain: every kind of tampering is found, and an untouched one is clean."""

import pytest
from django.db import connection

from apps.accounts.models import Project
from apps.audit.chain import seal_entries, verify_chain
from apps.audit.kinds import Kind
from apps.audit.services import record

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def chain(project: Project) -> list[int]:
    """Ten sealed entries, by id."""
    ids = [record(Kind.PROJECT_CHANGED, subject=project, by="user:alice", payload={"n": n}).pk for n in range(10)]
    while seal_entries():
        pass
    return ids


@pytest.fixture
def project(transactional_db: None) -> Project:
    return Project.objects.create(slug="shop", name="Shop")


def tamper(statement: str, *values: int | str) -> None:
    """What only somebody with the database's keys can do: change rows with the triggers off."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(statement, list(values))
        cursor.execute("SET session_replication_role = DEFAULT")


def test_an_untouched_chain_is_clean_and_complete(chain: list[int]) -> None:
    report = verify_chain()
    assert (report.sealed, report.unsealed, report.faults) == (10, 0, [])


def test_sealing_again_adds_nothing(chain: list[int]) -> None:
    assert seal_entries() == 0


def test_entries_of_a_running_transaction_wait_for_their_place(chain: list[int], project: Project) -> None:
    record(Kind.PROJECT_CHANGED, subject=project, by="user:alice")
    assert verify_chain().unsealed == 1
    assert seal_entries() == 1


def test_an_edited_entry_is_found(chain: list[int]) -> None:
    tamper("UPDATE audit_auditentry SET actor = 'user:mallory' WHERE id = %s", chain[4])
    (fault,) = verify_chain().faults
    assert f"entry {chain[4]} at place 5 was changed" == fault


def test_a_deleted_entry_is_found(chain: list[int]) -> None:
    tamper("DELETE FROM audit_auditentry WHERE id = %s", chain[4])
    assert f"entry {chain[4]} at place 5 was deleted" in verify_chain().faults


def test_a_deleted_link_is_found(chain: list[int]) -> None:
    tamper("DELETE FROM audit_auditseal WHERE seq = 5")
    assert any("place 5 is missing" in fault for fault in verify_chain().faults)


def test_an_entry_slipped_in_afterwards_is_found(chain: list[int]) -> None:
    tamper(
        "INSERT INTO audit_auditentry (kind, subject_type, actor, payload, xid) VALUES ('task.done', '', 'x', '{}', 1)"
    )
    assert any("have no place in it" in fault for fault in verify_chain().faults)


def test_two_swapped_entries_are_found(chain: list[int]) -> None:
    tamper(
        "UPDATE audit_auditentry a SET payload = b.payload FROM audit_auditentry b "
        "WHERE (a.id, b.id) IN ((%s, %s), (%s, %s))",
        *(chain[2], chain[3], chain[3], chain[2]),
    )
    assert len(verify_chain().faults) == 2
