"""Asking whether the audit's chain holds: whoever may read an audit hears it, an admin hears what is wrong."""

from typing import Any

import pytest
from django.db import connection

from apps.accounts.models import Member, Project, Role, User
from apps.accounts.rights import Right
from apps.audit import last_report
from apps.audit.chain import seal_entries, verify_chain
from apps.audit.kinds import Kind
from apps.audit.services import record
from tests.edges.caller import Caller
from tests.factories import make_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def admin(db: None) -> User:
    return make_user("root", is_superuser=True, is_staff=True)


@pytest.fixture
def entries(project: Project) -> list[int]:
    """Ten entries with a place in the chain, by id."""
    ids = [record(Kind.PROJECT_CHANGED, subject=project, by="user:alice", payload={"n": n}).pk for n in range(10)]
    while seal_entries():
        pass
    return ids


def forge(entry: int) -> None:
    """What takes the database's own keys: change an entry with the triggers off."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE audit_auditentry SET actor = 'user:mallory' WHERE id = %s", [entry])
        cursor.execute("SET session_replication_role = DEFAULT")


def test_it_is_answered_to_whoever_may_read_the_audit_and_to_nobody_else(
    project: Project, call_as: Any, alice: User, as_charlie: Caller, anonymous: Caller
) -> None:
    answered = set()
    for role in Role.values:
        asker = make_user(f"a-{role}", is_agent=role == Role.AGENT)
        Member.objects.create(project=project, user=asker, role=role)
        status = call_as(asker).get("audit/verify").status
        assert status in {200, 403}, role
        answered |= {role} if status == 200 else set()
    assert answered == {Role.OWNER, Role.MANAGER, Role.AUDITOR}
    assert as_charlie.get("audit/verify").status == 403
    assert anonymous.get("audit/verify").status == 401
    without_the_right = [right for right in Right.values if right != Right.AUDIT_READ]
    assert call_as(alice, scopes=without_the_right).get("audit/verify").status == 403


def test_of_a_broken_chain_a_member_hears_that_it_is_broken_and_an_admin_where(
    entries: list[int], project: Project, as_alice: Caller, call_as: Any, admin: User
) -> None:
    Member.objects.create(project=project, user=admin, role=Role.OWNER)
    whole, bound = call_as(admin), call_as(admin, project=project)
    seal_entries()
    forge(entries[4])
    fault = f"entry {entries[4]} at place 5 was changed"
    told = whole.get("audit/verify").body
    assert (told["is_clean"], told["faults"]) == (False, [fault])
    assert told["sealed"] >= 10
    for member in (as_alice, bound):
        heard = member.get("audit/verify").body
        assert (heard["is_clean"], heard["head"]) == (False, told["head"])
        assert heard["faults"] == ["entries were changed or are missing: an admin of the installation is told which"]
        assert (heard["sealed"], heard["unsealed"]) == (None, None), "how much others do is no member's to know"


def test_a_member_does_not_hear_how_many_entries_a_clean_installation_holds(
    entries: list[int], as_alice: Caller, call_as: Any, admin: User
) -> None:
    heard = as_alice.get("audit/verify").body
    assert heard == {"is_clean": True, "sealed": None, "unsealed": None, "faults": [], "head": verify_chain().head}
    assert call_as(admin).get("audit/verify").body["sealed"] >= 10


def test_asking_often_does_not_compute_the_chain_each_time(
    entries: list[int], as_alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check holds for as long as keeps checks to their share of a core; here: for ever."""
    monkeypatch.setattr(last_report, "SHARE", 1e-9)
    first = as_alice.get("audit/verify").body
    forge(entries[4])
    assert as_alice.get("audit/verify").body == first
    last_report.LAST_REPORT.forget()
    assert as_alice.get("audit/verify").body["is_clean"] is False
