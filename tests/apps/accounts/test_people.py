"""Accounts that admins of an installation make, and give another password: the services, the console, REST and CLI."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.accounts.people import create_person, reset_password, set_active
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token, find_token
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, NotAllowedError, NotSignedInError
from tests.apps.console.builders import sign_in
from tests.edges.caller import Caller
from tests.factories import make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(db: None) -> User:
    return make_user("root", is_superuser=True, is_staff=True)


def test_an_account_has_a_password_that_is_told_once(admin: User) -> None:
    made = create_person(username="dora", by=admin)
    assert made.user.check_password(made.password)
    assert (made.user.is_superuser, made.user.memberships.exists()) == (False, False)
    assert made.password not in str(list(AuditEntry.objects.values_list("payload", flat=True)))
    with pytest.raises(ConflictError, match="dora is taken"):
        create_person(username="dora", by=admin)
    with pytest.raises(BadInputError) as raised:
        create_person(username="ada", by=admin, password="1234")
    assert list(raised.value.errors) == ["password"]


def test_another_password_ends_all_they_are_signed_in_with(admin: User, bob: User) -> None:
    client = sign_in(bob)
    assert client.get(reverse("console:preferences")).status_code == 200
    made = reset_password(user=bob, by=admin)
    assert made.user.check_password(made.password)
    assert client.get(reverse("console:preferences")).status_code == 302
    entry = AuditEntry.objects.get(kind="user.password_changed")
    assert (entry.actor, made.password in str(entry.payload)) == ("user:root", False)


def test_a_switched_off_account_opens_nothing_until_it_is_switched_on(admin: User, bob: User) -> None:
    client = sign_in(bob)
    _, text = create_token(user=bob, name="t", scopes=["tasks:read"], by=bob)
    set_active(user=bob, is_active=False, by=admin)
    assert client.get(reverse("console:preferences")).status_code == 302
    with pytest.raises(NotSignedInError):
        find_token(text)
    set_active(user=bob, is_active=True, by=admin)
    assert find_token(text).user == bob
    with pytest.raises(ConflictError, match="their own account"):
        set_active(user=admin, is_active=False, by=admin)


def test_nobody_but_an_admin_makes_or_changes_accounts(project: Project, alice: User, bob: User) -> None:
    with pytest.raises(NotAllowedError):
        create_person(username="dora", by=alice)
    with pytest.raises(NotAllowedError):
        reset_password(user=bob, by=alice)
    with pytest.raises(NotAllowedError):
        set_active(user=bob, is_active=False, by=alice)
    client = sign_in(alice)
    assert client.get(reverse("console:people")).status_code == 403
    assert client.post(reverse("console:person-reset", args=(bob.pk,))).status_code == 403
    assert client.get(reverse("console:project-new")).status_code == 403


def test_the_console_makes_resets_and_switches(admin: User) -> None:
    client = sign_in(admin)
    page = client.post(reverse("console:people"), {"username": "dora"})
    password = page.context["made"].password
    assert password in page.content.decode()
    assert "no-store" in page.headers["Cache-Control"]
    assert Client().login(username="dora", password=password)
    dora = User.objects.get(username="dora")
    page = client.post(reverse("console:person-reset", args=(dora.pk,)))
    assert page.context["made"].password != password
    client.post(reverse("console:person-switch", args=(dora.pk,)), {"active": "off"})
    assert not User.objects.get(pk=dora.pk).is_active
    client.post(reverse("console:person-switch", args=(dora.pk,)), {"active": "on"})
    assert User.objects.get(pk=dora.pk).is_active
    refused = client.post(reverse("console:people"), {"username": "dora"})
    assert (refused.status_code, "is taken" in refused.content.decode()) == (409, True)


def test_a_project_is_made_in_the_console_and_leads_to_what_connects_it(admin: User) -> None:
    client = sign_in(admin)
    made = client.post(reverse("console:project-new"), {"name": "Letters", "slug": "letters"})
    assert made.headers["Location"] == reverse("console:connect", args=("letters",))
    assert Project.objects.get(slug="letters").members.get().user == admin
    refused = client.post(reverse("console:project-new"), {"name": "Letters", "slug": "letters"})
    assert (refused.status_code, "is taken" in refused.content.decode()) == (409, True)
    assert reverse("console:project-new") in client.get(reverse("console:project", args=("letters",))).content.decode()


def test_accounts_by_rest(project: Project, admin: User, alice: User, bob: User) -> None:
    def call_as(user: User) -> Caller:
        return Caller(create_token(user=user, name="t", scopes=Right.values, by=user)[1])

    as_admin, as_alice = call_as(admin), call_as(alice)
    made = as_admin.post("users", {"username": "dora"}, key="k")
    assert (made.status, made.body["username"]) == (201, "dora")
    dora = User.objects.get(username="dora")
    assert dora.check_password(made.body["password"])
    assert as_admin.post("users", {"username": "dora"}, key="k").body["password"] is None
    reset = as_admin.post(f"users/{dora.pk}/reset-password", {"draw": True})
    dora.refresh_from_db()
    assert dora.check_password(reset.body["password"])
    changed = as_admin.patch(f"users/{dora.pk}", {"is_active": False, "may_make_projects": True})
    assert (changed.body["is_active"], changed.body["may_make_projects"]) == (False, True)
    assert [one["username"] for one in as_admin.get("users?username=dora").body["results"]] == ["dora"]
    calls: list[Any] = [
        as_alice.get("users"),
        as_alice.post("users", {"username": "x"}),
        as_alice.get(f"users/{bob.pk}"),
    ]
    assert [one.status for one in calls] == [403, 403, 403]
