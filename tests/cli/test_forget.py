"""`tentalis forget`: looks first, deletes when told to."""

from apps.accounts.models import Member, Project
from apps.audit.models import AuditEntry
from apps.inference.models import Session
from tests.apps.conversations.talk import Talk, user
from tests.cli.conftest import Run
from tests.factories import make_worker


def test_a_person_is_forgotten_only_when_it_is_said_so(signed_in: Run) -> None:
    project = Project.objects.get(slug="shop")
    Member.objects.filter(project=project, user__username="alice").update(role="owner")
    make_worker(project, "helper")
    Talk(project, end_user="Grace Hopper").ask(user("What is two and two?"), answer="It is four.")
    looked = signed_in("forget", "--end-user", "Grace Hopper", "--dry-run")
    assert (looked.code, looked.out) == (0, "would be deleted: 1 sessions, 1 exchanges; training files: 0\n")
    assert Session.objects.count() == 1
    done = signed_in("forget", "--end-user", "Grace Hopper", "--yes", "--json")
    assert (done.json["dry_run"], done.json["counts"]["sessions"]) == (False, 1)
    assert not Session.objects.exists()
    entry = AuditEntry.objects.get(kind="person.forgotten")
    assert entry.payload["subject_hash"] == done.json["subject_hash"]
    assert "Grace" not in str(entry.payload)
    assert signed_in("forget", "--text", "nobody said this", "--yes", "--json").json["dry_run"] is True


def test_one_of_the_two_must_be_named(signed_in: Run) -> None:
    assert signed_in("forget").code == 2
    assert signed_in("forget", "--end-user", "a", "--text", "bcd").code == 2
