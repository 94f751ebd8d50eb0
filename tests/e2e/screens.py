"""`python -m tests.e2e.screens`: photographs every page of the console, light and dark, into docs/screens/.

Without more it shows a made-up project that has lived. `--only review task` takes some pages, `--narrow` a phone's
width as well, `--out` another folder. With `--address` (and the password in TENTALIS_ADMIN_PASSWORD) it shows a few
pages of a running platform with what is really in it, as `running_…`: README's are those of `make demo DEMO_KEEP=1`.
"""

import argparse
import os
from collections.abc import Collection
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from urllib.parse import urljoin

from PIL import Image
from playwright.sync_api import Browser, Page

from tests.e2e.browser import open_chromium, open_context, sign_in

ROOT = Path(__file__).resolve().parent.parent.parent
THEMES = ("light", "dark")
TALLEST = 4000  # pixels; what is longer is cut
UNAVAILABLE = "/while-the-database-is-away/"
ANONYMOUS_PAGES = {"sign_in": "/sign-in/", "unavailable": UNAVAILABLE}
REVIEW_HEIGHT = 1500  # pixels: guidelines, prompt and answers together
FIRST_ROW = "main .rows tbody th a"
# name of a shot -> the link of the menu and the one of a page that lead there from the dashboard
REAL_PAGES: dict[str, tuple[str, ...]] = {
    "dashboard": (),
    "task": ("Tasks", FIRST_ROW),
    "run": ("Runs", FIRST_ROW),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.screens", description="Photograph the console.")
    parser.add_argument(
        "--address", help="a running console, such as http://127.0.0.1:8000; without: a made-up project"
    )
    parser.add_argument("--project", help="slug of the project to show; without: where the console leads")
    parser.add_argument("--user", default="admin", help="who signs in there")
    parser.add_argument("--only", nargs="*", default=[], help="names of pages; without: every page")
    parser.add_argument("--narrow", action="store_true", help="a phone's width as well")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "screens", help="folder for the PNG files")
    given = parser.parse_args()
    out: Path = given.out
    out.mkdir(parents=True, exist_ok=True)
    if given.address:
        password = os.environ.get("TENTALIS_ADMIN_PASSWORD", "")
        if not password:
            parser.error(f"wanted the password of {given.user} in TENTALIS_ADMIN_PASSWORD, found none")
        photograph_running(out, given.address, given.user, password, given.project)
    else:
        photograph_made_up(out, only=given.only, is_narrow_too=given.narrow)


def photograph_running(out: Path, address: str, user: str, password: str, project: str | None) -> None:
    """A few pages of a platform that runs, as its dashboard leads to them."""
    with open_chromium() as browser:
        for theme in THEMES:
            page = open_page(browser, theme, width=1280)
            sign_in(page, address, user, password)
            home = f"{address}/p/{project}/" if project else page.url
            for name, steps in REAL_PAGES.items():
                page.goto(home)
                for step in steps:
                    menu = page.get_by_role("navigation", name="Project")
                    link = page.locator(step) if " " in step else menu.get_by_role("link", name=step, exact=True)
                    page.goto(urljoin(address, link.first.get_attribute("href") or ""))
                shoot(page, out / f"running_{name}-{theme}.png")
            if take_review(page, f"{home}reviews/"):
                page.set_viewport_size({"width": 1280, "height": REVIEW_HEIGHT})
                shoot(page, out / f"running_review-{theme}.png")
            page.context.close()


def take_review(page: Page, queue: str) -> bool:
    """Open the next review that waits, or the one that is open already; False where none waits."""
    page.goto(queue)
    with page.expect_navigation():
        page.get_by_role("button", name="Take the next one").click()
    sends, held = page.get_by_role("button", name="Send feedback"), page.locator("main .rows tbody a")
    if not sends.count() and held.count():
        page.goto(urljoin(queue, held.first.get_attribute("href") or ""))
    return sends.count() > 0


def photograph_made_up(out: Path, *, only: Collection[str], is_narrow_too: bool) -> None:
    """Every page (or only some, by name), on a database of its own that is gone afterwards."""
    import tests.embedded_servers  # noqa: F401  (before Django reads its settings)

    os.environ["DJANGO_SETTINGS_MODULE"] = "tentalis.settings.test"
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    import django

    django.setup()
    from django.db import connection
    from django.test.utils import setup_test_environment, teardown_test_environment

    setup_test_environment()
    name = connection.creation.create_test_db(verbosity=0, autoclobber=True)
    try:
        photograph_pages(out, only=only, is_narrow_too=is_narrow_too)
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)
        teardown_test_environment()


def photograph_pages(out: Path, *, only: Collection[str], is_narrow_too: bool) -> None:
    from django.db import connections

    from apps.accounts.models import Member, Role
    from tests.e2e.pages import find_admin_pages, find_manager_pages, find_own_pages, find_pages
    from tests.e2e.scenery import build_scene
    from tests.e2e.server import serve
    from tests.e2e.walks import find_walks
    from tests.factories import make_user

    scene = build_scene(updates=16)
    Member.objects.filter(project=scene.project, user=scene.alice).update(role=Role.OWNER)
    pages = find_pages(scene) | find_manager_pages(scene) | find_own_pages()
    admin_pages = find_admin_pages(scene)
    make_user("root", is_superuser=True, is_staff=True)
    groups = {"": ANONYMOUS_PAGES, "alice": pages, "root": admin_pages}
    walks = find_walks()
    known = sorted([*walks, *(name for group in groups.values() for name in group)])
    if unknown := sorted(set(only) - set(known)):
        raise SystemExit(f"no page {', '.join(unknown)}; there are {', '.join(known)}")
    widths = {1280: ""} | ({390: "-390"} if is_narrow_too else {})
    with serve() as address, open_chromium() as browser, ExitStack() as first:
        # a walk's connections are kept beside the browser's loop; when that is gone, nobody finds them
        first.callback(connections.close_all)
        for theme in THEMES:
            for width, mark in widths.items():
                page = open_page(browser, theme, width)
                page.route(f"**{UNAVAILABLE}", lambda route: route.fulfill(status=503, body=read_unavailable()))
                for user, group in groups.items():
                    if user:
                        page.context.clear_cookies()
                        sign_in(page, address, user)
                    for name, path in group.items():
                        if not only or name in only:
                            page.goto(address + path)
                            shoot(page, out / f"{name}-{theme}{mark}.png", full_page=True)
                for name, walk in walks.items():
                    if not only or name in only:
                        page.context.clear_cookies()
                        walk(page, address, scene)
                        shoot(page, out / f"{name}-{theme}{mark}.png", full_page=True)
                page.context.close()


def read_unavailable() -> str:
    """What is answered while the database is away: no path leads there."""
    from django.template.loader import render_to_string

    return render_to_string("503.html")


def open_page(browser: Browser, theme: str, width: int) -> Page:
    context, _ = open_context(browser, color_scheme=theme)
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": 860})
    return page


def shoot(page: Page, path: Path, *, full_page: bool = False) -> None:
    page.wait_for_load_state("networkidle")
    size = page.viewport_size
    if full_page and size:  # as high as the page: what sticks to a window's edge stands in its own place
        height = page.evaluate("() => document.documentElement.scrollHeight")
        page.set_viewport_size({"width": size["width"], "height": min(height, TALLEST)})
    save_small(page.screenshot(animations="disabled"), path)
    if size:
        page.set_viewport_size(size)


def save_small(png: bytes, path: Path) -> None:
    """With 128 colours, which nobody tells from all of them on pages like ours, at a third of the size."""
    with Image.open(BytesIO(png)) as image:
        small = image.convert("RGB").quantize(128, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        small.crop((0, 0, small.width, min(small.height, TALLEST))).save(path, optimize=True)


if __name__ == "__main__":
    main()
