"""`python -m tests.e2e.screens`: photographs the console, light and dark.

With `--address` (and the password in TENTALIS_ADMIN_PASSWORD) a running platform with what is really in it; without,
every page of a made-up project, wide and narrow, to look at while working on them.
"""

import argparse
import os
from pathlib import Path
from urllib.parse import urljoin

from playwright.sync_api import Browser, Page

from tests.e2e.browser import open_chromium, open_context, sign_in

ROOT = Path(__file__).resolve().parent.parent.parent
THEMES = ("light", "dark")
# name of a shot -> link texts that lead there from the dashboard
REAL_PAGES: dict[str, tuple[str, ...]] = {
    "dashboard": (),
    "task": ("Tasks", "main table a"),
    "run": ("Runs", "main table a"),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.screens", description="Photograph the console.")
    parser.add_argument(
        "--address", help="a running console, such as http://127.0.0.1:8000; without: a made-up project"
    )
    parser.add_argument("--project", help="slug of the project to show; without: where the console leads")
    parser.add_argument("--user", default="admin", help="who signs in there")
    parser.add_argument("--out", type=Path, help="folder for the PNG files")
    given = parser.parse_args()
    out: Path = given.out or (ROOT / "docs" / "screens" if given.address else ROOT / "build" / "screens")
    out.mkdir(parents=True, exist_ok=True)
    if given.address:
        password = os.environ.get("TENTALIS_ADMIN_PASSWORD", "")
        if not password:
            parser.error(f"wanted the password of {given.user} in TENTALIS_ADMIN_PASSWORD, found none")
        photograph_running(out, given.address, given.user, password, given.project)
    else:
        photograph_made_up(out)


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
                    link = page.locator(step).first if " " in step else page.get_by_role("link", name=step).first
                    page.goto(urljoin(address, link.get_attribute("href") or ""))
                shoot(page, out / f"{name}-{theme}.png")
            page.context.close()


def photograph_made_up(out: Path) -> None:
    """Every page, on a database of its own that is gone afterwards."""
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
        photograph_every_page(out)
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)
        teardown_test_environment()


def photograph_every_page(out: Path) -> None:
    from tests.e2e.pages import find_pages
    from tests.e2e.scenery import build_scene
    from tests.e2e.server import serve

    pages = find_pages(build_scene(updates=16))
    with serve() as address, open_chromium() as browser:
        for theme, width in (*((theme, 1280) for theme in THEMES), ("light", 360)):
            page = open_page(browser, theme, width)
            sign_in(page, address, "alice")
            for name, path in pages.items():
                page.goto(address + path)
                shoot(page, out / f"{name}-{theme}-{width}.png", full_page=True)
            page.context.close()


def open_page(browser: Browser, theme: str, width: int) -> Page:
    context, _ = open_context(browser, color_scheme=theme)
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": 860})
    return page


def shoot(page: Page, path: Path, *, full_page: bool = False) -> None:
    page.wait_for_load_state("networkidle")
    page.screenshot(path=path, full_page=full_page)


if __name__ == "__main__":
    main()
