"""Pages that only a way leads to: what signing in asks next, and what a form answers once."""

from collections.abc import Callable, Mapping
from datetime import timedelta

from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Page

from apps.accounts.browser_sessions import CONFIRMED, SessionStore
from apps.accounts.invitations import hash_code
from apps.accounts.models import Passkey, Role, User
from apps.inference.models import Provider, ProviderGrant
from tests.e2e.browser import sign_in
from tests.e2e.scenery import Scene
from tests.factories import make_user
from tests.second_factors import Phone, give_app

Walk = Callable[[Page, str, Scene], None]
"""Goes there in a browser in which nobody is signed in."""


def find_walks() -> Mapping[str, Walk]:
    """Name of a page -> the way to it."""
    return {
        "sign_in_wrong": _say_a_wrong_password,
        "second_step": _meet_the_second_step,
        "app_set_up": _set_an_app_up,
        "recovery_codes": _get_recovery_codes,
        "signing_in_factors": _see_own_factors,
        "confirm": _be_asked_for_a_proof,
        "confirm_code": _be_asked_for_a_code,
        "invited": _invite_somebody,
        "join": _be_invited_by_an_admin,
        "no_project": _be_in_no_project,
        "grants": _see_grants,
        "grants_own": _see_own_grant,
    }


def _say_a_wrong_password(page: Page, address: str, scene: Scene) -> None:
    page.goto(f"{address}/sign-in/")
    page.get_by_label("Username").fill("alice")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()


def _meet_the_second_step(page: Page, address: str, scene: Scene) -> None:
    _begin_to_sign_in(page, address)


def _begin_to_sign_in(page: Page, address: str) -> list[str]:
    """Dora, as far as her password; her recovery codes."""
    codes = _give_factors()
    page.goto(f"{address}/sign-in/")
    page.get_by_label("Username").fill("dora")
    page.get_by_label("Password").fill("dora-has-a-password")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Second factor").wait_for()
    return codes


def _set_an_app_up(page: Page, address: str, scene: Scene) -> None:
    make_user("erin")
    sign_in(page, address, "erin")
    page.goto(address + reverse("console:signing-in"))
    page.get_by_role("button", name="Set up an app").click()
    page.locator("img.qr").wait_for()


def _get_recovery_codes(page: Page, address: str, scene: Scene) -> None:
    _set_an_app_up(page, address, scene)
    shown = page.locator(".secret-key").text_content() or ""
    page.get_by_label("Code").fill(Phone(shown.replace(" ", "")).next_code())
    page.get_by_role("button", name="Turn it on").click()
    page.locator(".recovery-codes").wait_for()
    User.objects.get(username="erin").delete()


def _see_own_factors(page: Page, address: str, scene: Scene) -> None:
    codes = _begin_to_sign_in(page, address)
    page.get_by_label("Code").fill(codes[0])
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "sign-in" not in url)
    page.goto(address + reverse("console:signing-in"))


def _be_asked_for_a_proof(page: Page, address: str, scene: Scene) -> None:
    sign_in(page, address, "alice")
    _grow_stale(page)
    page.goto(address + reverse("console:members", args=(scene.project.slug,)))
    page.get_by_label("User name").fill("erin")
    page.get_by_role("button", name="Invite or add").click()
    page.get_by_role("heading", name="Is it you?").wait_for()


def _be_asked_for_a_code(page: Page, address: str, scene: Scene) -> None:
    _see_own_factors(page, address, scene)
    _grow_stale(page)
    page.get_by_role("button", name="Make new ones").click()
    page.get_by_role("heading", name="Is it you?").wait_for()
    page.get_by_label("Code").fill("000000")
    page.get_by_role("button", name="Go on").click()
    page.get_by_role("alert").first.wait_for()


def _invite_somebody(page: Page, address: str, scene: Scene) -> None:
    scene.project.invitations.filter(username="frank").delete()
    sign_in(page, address, "alice")
    page.goto(address + reverse("console:members", args=(scene.project.slug,)))
    page.get_by_label("User name").fill("frank")
    page.get_by_role("button", name="Invite or add").click()
    page.get_by_label("Link").wait_for()


def _be_invited_by_an_admin(page: Page, address: str, scene: Scene) -> None:
    root = User.objects.get(username="root")
    code = "a-code-of-the-tests"
    scene.project.invitations.filter(username="hugo").delete()
    scene.project.invitations.create(
        username="hugo",
        role=Role.REVIEWER,
        code_hash=hash_code(code),
        invited_by=root,
        expires_at=timezone.now() + timedelta(days=6),
    )
    page.goto(address + reverse("console:invitation", args=(code,)))


def _be_in_no_project(page: Page, address: str, scene: Scene) -> None:
    make_user("gail")
    sign_in(page, address, "gail")


def _see_grants(page: Page, address: str, scene: Scene) -> None:
    sign_in(page, address, "root")
    page.goto(address + _share_a_server(scene))


def _see_own_grant(page: Page, address: str, scene: Scene) -> None:
    sign_in(page, address, "alice")
    page.goto(address + _share_a_server(scene))


def _grow_stale(page: Page) -> None:
    """As if the last proof were too old."""
    cookie = next(one["value"] for one in page.context.cookies() if one["name"] == "sessionid")
    session = SessionStore(cookie)
    session[CONFIRMED] = "2026-01-01T00:00:00+00:00"
    session.save()


def _give_factors() -> list[str]:
    """Dora has an app and two passkeys; her recovery codes."""
    User.objects.filter(username="dora").delete()
    dora = make_user("dora")
    _, codes = give_app(dora)
    for name, days in (("Laptop", 40), ("Blue security key", 0)):
        Passkey.objects.create(
            user=dora,
            name=name,
            credential_id=name.encode(),
            credential=b"",
            last_used_at=timezone.now() - timedelta(days=1) if days else None,
        )
    return codes


def _share_a_server(scene: Scene) -> str:
    """A server of the installation that two projects may ask; its page."""
    provider, is_new = Provider.objects.get_or_create(
        project=None,
        name="house-claude",
        defaults={"kind": "anthropic", "base_url": "https://api.anthropic.com", "granted_to": "listed"},
    )
    if is_new:
        other = type(scene.project).objects.get(slug="archive")
        ProviderGrant.objects.create(provider=provider, project=other, granted_by="user:root")
        ProviderGrant.objects.create(
            provider=provider,
            project=scene.project,
            tokens_per_day=2_000_000,
            usd_per_month=40,
            granted_by="user:root",
        )
    return reverse("console:provider", args=(scene.project.slug, provider.pk))
