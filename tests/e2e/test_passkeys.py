"""Passkeys in a real browser, by a virtual authenticator."""

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.accounts.browser_sessions import CONFIRMED, SessionStore
from apps.accounts.models import Passkey
from tests.e2e.browser import Watch, sign_in
from tests.factories import make_project

pytestmark = pytest.mark.browser

DEVICE = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


def test_a_passkey_is_added_confirms_stands_beside_a_password_and_signs_in_alone(
    address: str, opened: tuple[Page, Watch]
) -> None:
    page, watch = opened
    make_project()
    address = address.replace("127.0.0.1", "localhost")
    device = page.context.new_cdp_session(page)
    device.send("WebAuthn.enable")
    device.send("WebAuthn.addVirtualAuthenticator", {"options": DEVICE})

    sign_in(page, address, "alice")
    page.goto(address + reverse("console:signing-in"))
    page.get_by_label("Name of the new passkey").fill("Laptop")
    page.get_by_role("button", name="Add a passkey").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Recovery codes")
    assert page.locator(".recovery-codes li").count() == 10
    assert Passkey.objects.get().name == "Laptop"

    cookie = next(one["value"] for one in page.context.cookies() if one["name"] == "sessionid")
    session = SessionStore(cookie)
    session[CONFIRMED] = "2026-01-01T00:00:00+00:00"
    session.save()
    page.goto(address + reverse("console:signing-in"))
    page.get_by_role("button", name="Make new ones").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Is it you?")
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Recovery codes")

    page.context.clear_cookies()
    page.goto(address + "/sign-in/?next=/preferences/")
    page.get_by_label("Username").fill("alice")
    page.get_by_label("Password").fill("alice-has-a-password")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Second factor")
    page.get_by_role("button", name="Use a passkey").click()
    expect(page).to_have_url(address + "/preferences/")

    page.context.clear_cookies()
    page.goto(address + "/sign-in/?next=/preferences/")
    page.get_by_role("button", name="Use a passkey").click()
    expect(page).to_have_url(address + "/preferences/")

    assert watch.problems == []
