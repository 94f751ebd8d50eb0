"""Signing in with two factors, and setting them up."""

import base64
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from apps.accounts.models import AuthenticatorApp, BrowserSession, Project, User
from apps.accounts.second_factor import find_factors
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.console.signing import MOST_WRONG
from tests.factories import make_user
from tests.second_factors import Phone, give_app

pytestmark = pytest.mark.django_db

SECOND = "/sign-in/second-step/"
PUBLIC = {"sign-in", "second-step", "sign-out", "passkey-options", "passkey-sign-in"}


@pytest.fixture
def phone(alice: User) -> Phone:
    return give_app(alice)[0]


def begin(**data: str) -> Client:
    """A browser in which alice's password was right."""
    client = Client()
    answer = client.post("/sign-in/", {"username": "alice", "password": "alice-has-a-password", **data})
    assert answer.headers["Location"] == SECOND
    return client


def is_in(client: Client) -> bool:
    return client.get(reverse("console:preferences")).status_code == 200


def test_after_the_password_the_code_of_the_app_signs_in_and_leads_where_one_was_going(phone: Phone) -> None:
    client = begin(next="/p/shop/tasks/")
    assert client.get(SECOND).status_code == 200
    assert client.post(SECOND, {"code": phone.next_code()}).headers["Location"] == "/p/shop/tasks/"
    assert is_in(client)
    assert AuditEntry.objects.get(kind=Kind.USER_SIGNED_IN).payload["by"] == "app"
    assert client.get(SECOND).status_code == 302
    assert client.session.get_expiry_age() > 24 * 3600, "what was between ends in minutes; the session does not"


def test_nothing_opens_between_the_password_and_the_code(phone: Phone, project: Project) -> None:
    """Every path of the console, of the API and of the admin answers as it does to nobody."""
    between, nobody = begin(), Client()
    wrong = []
    for path in [*find_paths(), "/api/v1/whoami", "/api/v1/projects", "/admin/", "/admin/accounts/user/"]:
        for verb in ("get", "post"):
            found, expected = (getattr(client, verb)(path) for client in (between, nobody))
            if (found.status_code, found.headers.get("Location")) != (
                expected.status_code,
                expected.headers.get("Location"),
            ) or found.status_code == 200:
                wrong.append((verb, path, found.status_code, expected.status_code))
    assert not wrong, wrong
    assert not BrowserSession.objects.exclude(user=None).exists()


def find_paths() -> list[str]:
    """Every path of the console but those of signing in, its placeholders filled."""
    found = []

    def walk(resolver: Any, prefix: str) -> None:
        for entry in resolver.url_patterns:
            if isinstance(entry, URLResolver):
                walk(entry, prefix + str(entry.pattern))
            elif isinstance(entry, URLPattern) and entry.name not in PUBLIC:
                path = "/" + prefix + str(entry.pattern)
                found.append(re.sub(r"<int:\w+>", "1", re.sub(r"<(slug|str):\w+>", "shop", path)))

    console = [entry for entry in get_resolver().url_patterns if getattr(entry, "app_name", "") == "console"]
    walk(console[0], "")
    return found


def test_after_a_few_wrong_codes_the_password_is_asked_for_again(phone: Phone) -> None:
    client = begin()
    for _ in range(MOST_WRONG):
        assert client.post(SECOND, {"code": "no code"}).status_code == 400
    answer = client.post(SECOND, {"code": phone.next_code()})
    assert answer.headers["Location"] == "/sign-in/"
    assert not is_in(client)
    assert AuditEntry.objects.filter(kind=Kind.SECOND_FACTOR_FAILED).count() == MOST_WRONG


def test_what_is_between_ends_after_minutes_and_with_the_password(phone: Phone, alice: User) -> None:
    late = begin()
    session = late.session
    session["password_was_right"] = session["password_was_right"] | {"at": "2026-01-01T00:00:00+00:00"}
    session.save()
    changed = begin()
    alice.set_password("quite-another-password-2")
    alice.save()
    code = phone.next_code()
    for client in (late, changed):
        assert client.post(SECOND, {"code": code}).headers["Location"] == "/sign-in/"
        assert not is_in(client)


def test_the_admin_is_no_way_around(alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_superuser=True, is_staff=True)
    give_app(alice)
    client = Client()
    asked = client.get("/admin/")
    while asked.headers.get("Location", "").startswith("/admin/"):
        asked = client.get(asked.headers["Location"])
    assert asked.headers["Location"].startswith("/sign-in/")
    said = {"username": "alice", "password": "alice-has-a-password"}
    client.post("/admin/login/?next=/admin/", said)
    assert client.get("/admin/accounts/user/").status_code == 302
    begun = begin(next="/admin/")
    assert begun.get("/admin/accounts/user/").status_code == 302


def test_an_app_is_set_up_with_a_picture_and_a_key_and_recovery_codes_are_shown_once(alice: User) -> None:
    client, elsewhere = Client(), Client()
    for one in (client, elsewhere):
        one.force_login(alice)
    client.post(reverse("console:app-begin"))
    page = client.get(reverse("console:app-set-up"))
    text = page.content.decode()
    secret = page.context["secret"].replace(" ", "")
    assert 'src="data:image/svg+xml' in text
    assert page.context["secret"] in text
    phone = Phone(secret)
    wrong = Phone(base64.b32encode(b"y" * 20).decode()).next_code()
    assert client.post(reverse("console:app-set-up"), {"code": wrong}).status_code == 400
    assert not find_factors(alice).has_app
    shown = client.post(reverse("console:app-set-up"), {"code": phone.next_code()})
    assert shown.status_code == 201
    assert len(shown.context["codes"]) == 10
    assert find_factors(alice).has_app
    assert is_in(client)
    assert not is_in(elsewhere)
    assert secret not in client.get(reverse("console:signing-in")).content.decode()
    assert client.get(reverse("console:app-set-up")).status_code == 302
    kinds = set(AuditEntry.objects.values_list("kind", flat=True))
    assert kinds >= {Kind.SECOND_FACTOR_ADDED, Kind.RECOVERY_CODES_MADE, Kind.USER_SIGNED_OUT}


def test_new_recovery_codes_take_the_place_of_the_old(phone: Phone, alice: User) -> None:
    client = begin()
    client.post(SECOND, {"code": phone.next_code()})
    first = client.post(reverse("console:recovery-codes")).context["codes"]
    second = client.post(reverse("console:recovery-codes")).context["codes"]
    again = begin()
    assert again.post(SECOND, {"code": first[0]}).status_code == 400
    assert again.post(SECOND, {"code": second[0]}).status_code == 302


def test_the_app_is_removed_and_the_password_is_enough_again(phone: Phone, alice: User) -> None:
    client = begin()
    client.post(SECOND, {"code": phone.next_code()})
    client.post(reverse("console:app-remove"))
    assert not AuthenticatorApp.objects.exists()
    fresh = Client()
    fresh.post("/sign-in/", {"username": "alice", "password": "alice-has-a-password"})
    assert is_in(fresh)
    assert AuditEntry.objects.filter(kind=Kind.SECOND_FACTOR_REMOVED).count() == 1


def test_an_agent_has_no_second_factor(project: Project) -> None:
    client = Client()
    client.force_login(make_user("claw", is_agent=True))
    client.post(reverse("console:app-begin"))
    assert not AuthenticatorApp.objects.exists()
