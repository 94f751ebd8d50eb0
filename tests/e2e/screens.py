"""`python -m tests.e2e.screens [--all] [--out DIR]`: photographs the pages, light and dark, wide and narrow."""

import argparse
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
COMMITTED = ("dashboard", "task", "review")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.screens", description="Photograph the console.")
    parser.add_argument("--all", action="store_true", help=f"every page, not only {', '.join(COMMITTED)}")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "screens", help="folder for the PNG files")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)

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
        photograph(given.out, everything=given.all)
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)
        teardown_test_environment()


def photograph(out: Path, *, everything: bool) -> None:
    from tests.e2e.browser import open_chromium, open_context, sign_in
    from tests.e2e.pages import find_pages
    from tests.e2e.scenery import build_scene
    from tests.e2e.server import serve

    scene = build_scene(updates=16)
    pages = {name: path for name, path in find_pages(scene).items() if everything or name in COMMITTED}
    with serve() as address, open_chromium() as browser:
        for theme, width in (("light", 1280), ("dark", 1280), ("light", 360)):
            if width == 360 and not everything:
                continue
            context, _ = open_context(browser, color_scheme=theme)
            page = context.new_page()
            page.set_viewport_size({"width": width, "height": 860})
            sign_in(page, address, "alice")
            for name, path in pages.items():
                if name == "sign_in":
                    continue
                page.goto(address + path)
                page.wait_for_load_state("networkidle")
                shot = out / f"{name}-{theme}{'' if width == 1280 else '-narrow'}.png"
                page.screenshot(path=shot, full_page=everything)
            context.close()


if __name__ == "__main__":
    main()
