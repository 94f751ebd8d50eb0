"""Chromium, and eyes for what it refuses: content security violations and script errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

from tentalis.platform.chromium import NAMES, find_chromium

REFUSALS = ("Content Security Policy", "Trusted Type", "TrustedHTML", "TrustedScript", "Refused to ")
SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--js-flags=--always-sparkplug,--no-maglev,--no-opt",  # no page lives long enough to optimise
]


@contextmanager
def open_chromium() -> Iterator[Browser]:
    path = find_chromium()
    if path is None:
        raise RuntimeError(f"no Chromium found; looked for {', '.join(NAMES)}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=SWITCHES)
        try:
            yield browser
        finally:
            browser.close()


class Watch:
    """What went wrong on any page of a browser context.

    Every test fails that leaves a refusal of the content security policy behind, unless it said
    beforehand by `expects_refusals` that it provokes them.
    """

    opened: ClassVar[list["Watch"]] = []

    def __init__(self, context: BrowserContext) -> None:
        self.problems: list[str] = []
        self.expects_refusals = False
        self.is_with_axe = False  # which tries inline styles on what it finds hidden
        self.opened.append(self)
        context.on("page", self._watch)

    @property
    def refusals(self) -> list[str]:
        """What the policy refused: scripts, styles, requests, untrusted types."""
        found = [problem for problem in self.problems if any(words in problem for words in REFUSALS)]
        return [problem for problem in found if not (self.is_with_axe and "inline style" in problem)]

    @classmethod
    def take_refusals(cls) -> list[str]:
        """Refusals nobody expected, of every watch since the last call."""
        found = [refusal for watch in cls.opened if not watch.expects_refusals for refusal in watch.refusals]
        cls.opened.clear()
        return found

    def _watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.problems.append(f"{page.url}: {error}"))
        page.on("console", lambda message: self._hear(page, message))

    def _hear(self, page: Page, message: ConsoleMessage) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.problems.append(f"{page.url}: {message.text}")


def sign_in(page: Page, address: str, name: str, password: str | None = None) -> None:
    """Without a password: a persona of the tests, with theirs."""
    page.goto(f"{address}/sign-in/")
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(password or f"{name}-has-a-password")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "sign-in" not in url)


def open_context(browser: Browser, **options: Any) -> tuple[BrowserContext, Watch]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB", **options)
    context.set_default_timeout(120_000)
    return context, Watch(context)
