"""Coming in: who may, how often, and that the audit knows."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.console.services import MAX_FAILURES
from tests.factories import make_user

pytestmark = pytest.mark.django_db

SIGN_IN = "/sign-in/"


def attempt(username: str, password: str, *, address: str = "192.0.2.1", **data: str) -> int:
    answer = Client().post(SIGN_IN, {"username": username, "password": password, **data}, REMOTE_ADDR=address)
    return answer.status_code


def test_the_page_says_where_one_signs_in() -> None:
    assert "To the Tentalis at testserver" in Client().get(SIGN_IN).content.decode()


def test_the_right_password_signs_in_and_is_audited(alice: User) -> None:
    assert attempt("alice", "alice-has-a-password") == 302
    entry = AuditEntry.objects.get(kind=Kind.USER_SIGNED_IN)
    assert (entry.actor, entry.subject_id) == ("user:alice", alice.pk)
    assert entry.payload == {"address": "192.0.2.1", "by": "password"}


def test_a_wrong_password_and_an_unknown_name_get_the_same_words(alice: User) -> None:
    pages = [
        Client().post(SIGN_IN, {"username": name, "password": "wrong"}).context["form"].non_field_errors()
        for name in ("alice", "nobody")
    ]
    assert pages[0] == pages[1]
    assert AuditEntry.objects.filter(kind=Kind.SIGN_IN_FAILED).count() == 2


@pytest.mark.parametrize("name", ["alice", "nobody"])
def test_after_ten_failures_even_the_right_password_must_wait(alice: User, name: str) -> None:
    for _ in range(MAX_FAILURES):
        assert attempt(name, "wrong") == 400
    assert attempt(name, "alice-has-a-password") == 429
    assert AuditEntry.objects.filter(kind=Kind.SIGN_IN_FAILED).count() == MAX_FAILURES


def test_failures_from_elsewhere_or_for_another_name_lock_nobody_out(alice: User, bob: User) -> None:
    for _ in range(MAX_FAILURES):
        attempt("alice", "wrong", address="198.51.100.7")
    assert attempt("alice", "alice-has-a-password") == 302
    assert attempt("bob", "bob-has-a-password", address="198.51.100.7") == 302


def test_an_inactive_user_and_an_agent_stay_outside(alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    agent = make_user("claw", is_agent=True)
    agent.set_unusable_password()
    agent.save()
    assert attempt("alice", "alice-has-a-password") == 400
    assert attempt("claw", "claw-has-a-password") == 400


def test_signing_in_leads_back_to_where_one_was_going_and_nowhere_else(alice: User) -> None:
    client = Client()
    data = {"username": "alice", "password": "alice-has-a-password"}
    assert client.post(SIGN_IN, data | {"next": "/p/shop/tasks/"}).headers["Location"] == "/p/shop/tasks/"
    away = Client().post(SIGN_IN, data | {"next": "https://evil.example/"})
    assert away.headers["Location"] == reverse("console:dashboard")


def test_signing_out_takes_a_post_and_ends_the_session(alice: User) -> None:
    client = Client()
    client.force_login(alice)
    assert client.get("/sign-out/").status_code == 405
    assert client.post("/sign-out/").headers["Location"] == SIGN_IN
    assert client.get("/p/shop/").status_code == 302
