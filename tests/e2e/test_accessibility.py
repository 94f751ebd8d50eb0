"""WCAG 2.2 AA by axe-core: every page, light and dark, wide and narrow, empty, full and in error."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Page, ViewportSize

from apps.accounts.models import Member, Project, Role
from apps.audit.models import AuditEntry
from tests.e2e.axe import OF_THE_LOOK, bring_axe, find_violations
from tests.e2e.browser import Watch, open_context, sign_in
from tests.e2e.pages import find_admin_pages, find_manager_pages, find_own_pages, find_pages
from tests.e2e.scenery import build_scene
from tests.factories import make_project, make_user, make_worker

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LOOKS: tuple[tuple[int, Literal["light", "dark"]], ...] = ((1280, "light"), (360, "dark"))
"""Each width and each theme once: colours do not depend on the width, nor sizes on the theme."""
# What a person could not hit (WCAG 2.5.8, with its exception for links in running text and spaced rows)
SMALL_TARGETS = """() => [...document.querySelectorAll("button, summary, select, textarea, input, nav a, .button")]
    .filter((one) => one.checkVisibility() && !["hidden", "radio", "checkbox"].includes(one.type))
    .map((one) => [one.outerHTML.slice(0, 80), one.getBoundingClientRect()])
    .filter(([, box]) => Math.min(box.width, box.height) < 24)
    .map(([html, box]) => `${html}: ${Math.round(box.width)}x${Math.round(box.height)}`)"""
UNLABELLED = """() => [...document.querySelectorAll("input, select, textarea, button, a, meter, progress")]
    .filter((one) => one.type !== "hidden" && !one.closest("[aria-hidden=true]"))
    .filter((one) => !one.labels?.length && !one.textContent.trim())
    .filter((one) => !one.ariaLabel && !one.getAttribute("aria-labelledby"))
    .map((one) => one.outerHTML.slice(0, 120))"""
SCREEN = 860
MOST_SCREENS = 4
# what a narrow screen folds is folded when the width has changed, which the next frame tells
HEIGHT = """async () => {
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return document.documentElement.scrollHeight;
}"""
# how many pixels it runs off the side, with all that is folded open
UNFOLDED_OVERFLOW = """() => {
    document.querySelectorAll("details[data-fold]").forEach((part) => (part.open = true));
    return document.documentElement.scrollWidth - document.documentElement.clientWidth;
}"""
LONG_LISTS = (
    "dashboard", "tasks", "runs", "returns", "adapters", "adapter_moved", "audit", "quality", "rater", "my_feedback",
    "worker", "run", "failed_run", "adapter", "course", "benchmark", "evaluation", "environments", "environment",
)  # fmt: skip
LISTS = (
    "project", "task-list", "task-new", "review-list", "run-list", "returns", "adapter-list", "blockers",
    "dead-letters", "audit", "members", "settings", "tokens", "exports", "worker-list", "worker-new",
    "session-list", "taskset-list", "quality", "proposal-list", "proposal-decided", "proposal-rules", "my-feedback",
    "bulk-new",
)  # fmt: skip


@pytest.fixture
def opened(browser: Browser) -> Iterator[tuple[Page, Watch]]:
    context, watch = open_context(browser, reduced_motion="reduce")
    bring_axe(context)
    yield context.new_page(), watch
    context.close()


@pytest.fixture
def page(opened: tuple[Page, Watch]) -> Page:
    return opened[0]


def look_at(page: Page, where: str) -> list[Any]:
    """What breaks on the page as it stands, in both themes and widths; and what nobody reads to its end."""
    page.emulate_media(color_scheme=LOOKS[0][1])
    found = measure_length(page, where)  # which ends as wide as the first look is
    for number, (width, theme) in enumerate(LOOKS):
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size(ViewportSize(width=width, height=SCREEN))
        if (over := page.evaluate(UNFOLDED_OVERFLOW)) > 0:
            found.append((where, width, f"runs {over} pixels off the side"))
        violations = find_violations(page, rules=OF_THE_LOOK if number else ())
        found += [(where, theme, width, *violation) for violation in violations]
    return found


def look_at_all(page: Page, address: str, paths: Mapping[str, str]) -> list[Any]:
    found = []
    for name, path in paths.items():
        page.goto(address + path)
        found += look_at(page, name)
    return found


def measure_length(page: Page, name: str) -> list[Any]:
    found = []
    for width in (390, 1280):
        page.set_viewport_size(ViewportSize(width=width, height=SCREEN))
        screens = page.evaluate(HEIGHT) / SCREEN
        if screens > MOST_SCREENS:
            found.append((name, width, f"is {screens:.1f} screens long, at most {MOST_SCREENS} are read"))
    return found


def test_no_page_of_a_project_that_has_lived_breaks_a_rule_or_the_policy_or_loses_a_label(
    address: str, opened: tuple[Page, Watch]
) -> None:
    page, watch = opened
    scene = build_scene(updates=3)
    Project.objects.create(slug="apes", name="Apes").members.create(user=scene.alice, role=Role.OWNER)
    Member.objects.filter(project=scene.project, user=scene.alice).update(role=Role.OWNER)
    found = look_at_all(page, address, {"sign in": "/sign-in/"})
    sign_in(page, address, "alice")
    for name, path in find_pages(scene).items():
        seen = len(watch.problems)
        page.goto(address + path)
        found += [(name, what) for what in page.evaluate(UNLABELLED) + page.evaluate(SMALL_TARGETS)]
        found += [(name, what) for what in watch.problems[seen:]]  # before axe, which tries inline styles
        found += look_at(page, name)
    found += look_at_all(page, address, find_manager_pages(scene) | find_own_pages())
    assert found == []


def test_no_list_is_longer_than_four_screens_after_a_whole_demo(address: str, page: Page) -> None:
    scene = build_scene(updates=24)
    sign_in(page, address, "alice")
    pages = find_pages(scene)
    found = []
    for name in LONG_LISTS:
        page.goto(address + pages[name])
        found += measure_length(page, name)
    assert found == []


def test_every_list_of_an_empty_project_is_accessible(address: str, page: Page) -> None:
    project = make_project("fresh")
    Member.objects.filter(project=project, user__username="alice").update(role=Role.OWNER)
    make_user("dora")
    sign_in(page, address, "alice")
    found = look_at_all(page, address, {name: reverse(f"console:{name}", args=("fresh",)) for name in LISTS})
    page.context.clear_cookies()
    sign_in(page, address, "dora")
    found += look_at_all(page, address, {"no project": "/"})
    assert found == []


def test_every_error_is_accessible(address: str, page: Page) -> None:
    project = make_project()
    make_worker(project)
    Member.objects.filter(project=project, user__username="alice").update(role=Role.OWNER)
    page.goto(f"{address}/sign-in/")
    page.get_by_label("Username").fill("alice")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    found = look_at(page, "a wrong password")
    sign_in(page, address, "alice")
    found += look_at_all(page, address, {"missing": "/p/shop/tasks/999/", "foreign": "/p/nobody/"})
    page.goto(address + reverse("console:task-new", args=("shop",)))
    page.get_by_role("button", name="Submit").click()
    page.evaluate("() => document.querySelector('main form').noValidate = true")
    page.get_by_role("button", name="Submit").click()
    page.get_by_role("alert").wait_for()
    found += look_at(page, "a task without a prompt")
    page.goto(address + reverse("console:settings", args=("shop",)))
    page.get_by_role("link", name="Who reviews what").click()
    page.get_by_label("Share of tasks sampled for review").fill("7")
    page.evaluate("() => { for (const one of document.forms) one.noValidate = true }")
    page.get_by_role("button", name="Save Who reviews what").click()
    page.get_by_role("alert").wait_for()
    assert "found 7" in page.locator("#review_policy .errorlist").inner_text()
    found += look_at(page, "a setting out of range")
    page.goto(address + reverse("console:tokens", args=("shop",)))
    page.evaluate("() => document.querySelector('main form').noValidate = true")
    page.get_by_role("button", name="Make the token").click()
    page.get_by_role("alert").wait_for()
    found += look_at(page, "a token without a name")
    bob = Member.objects.get(user__username="bob")
    page.context.clear_cookies()
    sign_in(page, address, "bob")
    found += look_at_all(page, address, {"forbidden": reverse("console:audit", args=("shop",))})
    assert bob.role == Role.REVIEWER
    assert found == []


def test_an_admins_pages_are_accessible(address: str, page: Page) -> None:
    scene = build_scene(updates=1)
    make_user("root", is_superuser=True, is_staff=True)
    sign_in(page, address, "root")
    entry = AuditEntry.objects.latest("id").pk
    paths = {
        "index": reverse("admin:index"),
        "admin entries": reverse("admin:audit_auditentry_changelist"),
        "nothing found": reverse("admin:audit_auditentry_changelist") + "?q=nobody",
        "entry": reverse("admin:audit_auditentry_change", args=[entry]),
        "users": reverse("admin:accounts_user_changelist"),
        "admin task": reverse("admin:tasks_task_change", args=[scene.reviewed.pk]),
        **find_admin_pages(scene),
    }
    assert look_at_all(page, address, paths) == []


def test_the_menus_are_accessible_while_open(address: str, page: Page) -> None:
    scene = build_scene(updates=1)
    Project.objects.create(slug="apes", name="Apes")
    sign_in(page, address, "alice")
    page.set_viewport_size(ViewportSize(width=390, height=800))
    page.goto(address + find_pages(scene)["sessions"])
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("navigation", name="Project").get_by_role("link", name="Settings").wait_for()
    found = find_violations(page)
    page.keyboard.press("Escape")
    for summary in (".switcher:not(.user-menu) > summary", ".user-menu > summary", ".views summary >> nth=-1"):
        page.locator(summary).first.click()
        found += find_violations(page)
        page.keyboard.press("Escape")
    assert found == []


def test_no_menu_of_a_page_opens_beyond_the_edge_of_a_phone(address: str, page: Page) -> None:
    scene = build_scene(updates=1)
    sign_in(page, address, "alice")
    page.set_viewport_size(ViewportSize(width=390, height=800))
    pages, found = find_pages(scene), []
    for name in ("taskset", "tasks", "reviews"):
        page.goto(address + pages[name])
        menus = page.locator("main .switcher:has(> .drop)").all()
        assert menus, name
        for menu in menus:
            menu.locator("> summary").click()
            box = menu.locator("> .drop").bounding_box()
            assert box is not None, name
            if box["x"] < 0 or box["x"] + box["width"] > 390:
                found.append((name, menu.locator("> summary").inner_text(), box))
            page.keyboard.press("Escape")
    assert found == []


def test_a_button_without_a_name_is_found(address: str, page: Page) -> None:
    """The eyes see: what every other test here says is empty is not when it should not be."""
    scene = build_scene(updates=1)
    sign_in(page, address, "alice")
    page.goto(address + find_pages(scene)["tasks"])
    page.evaluate("() => document.querySelector('main').append(document.createElement('button'))")
    assert [violation[0] for violation in find_violations(page)] == ["button-name"]
