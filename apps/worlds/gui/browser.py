"""Chromium for many episodes at once: one process, in which each has a context of its own.

A context has no network: every request is answered from here, by the episode's own site, and what is not of that site
is refused before it is sent. Its pages run no script. The browser is told nothing of our environment, starts when it
is needed, ends when nobody uses it, and is started anew when it died.
"""

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl

from tentalis.core.gui.shop import Shop
from tentalis.core.gui.site import START, Page, open_page, send_form
from tentalis.core.worlds import StateLostError

if TYPE_CHECKING:  # who only lists worlds does not wait for it
    from playwright.async_api import Browser, BrowserContext, Playwright, Route

logger = logging.getLogger(__name__)
T = TypeVar("T")

HOST: Final = "http://shop.test"
WIDTH, HEIGHT = 640, 480
SCROLL_PX: Final = 400
WITHIN_S: Final = 60.0
IDLE_S: Final = 60.0
"""Without an episode, until the browser ends."""
_SWITCHES: Final = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--disable-smooth-scrolling",
    "--disable-lcd-text", "--font-render-hinting=none",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
_ENVIRONMENT: Final = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "FONTCONFIG_FILE")
"""All that a browser is told of ours."""
_ELEMENTS: Final = "a, button, select, input"
_READ: Final = """([selector]) => {
    const tidy = (text) => text.replace(/\\s+/g, " ").trim();
    const own = (node) => tidy([...node.childNodes].map((one) => one.nodeType === 3 ? one.data : "").join(" "));
    const all = [...document.querySelectorAll(selector)];
    const view = (node) => { const box = node.getBoundingClientRect(); return box.top + box.height / 2; };
    const elements = all.map((node) => {
        const tag = node.tagName;
        if (tag === "A") return {role: "link", name: tidy(node.textContent), value: ""};
        if (tag === "BUTTON") return {role: "button", name: tidy(node.textContent), value: ""};
        const name = own(node.labels[0]);
        if (tag === "SELECT") return {role: "combobox", name, value: tidy(node.value),
                                      options: [...node.options].map((one) => one.text)};
        return node.type === "checkbox" ? {role: "checkbox", name, value: node.checked ? "on" : "off"}
                                        : {role: "textbox", name, value: tidy(node.value)};
    });
    const say = (node) => {
        const place = all.indexOf(node), one = elements[place];
        const options = one.options ? ` (${one.options.join(", ")})` : "";
        const value = ["link", "button"].includes(one.role) ? "" : `: ${one.value.slice(0, 80)}${options}`;
        return `[${place + 1}] ${one.role} ${one.name}${value}`;
    };
    const walk = (node) => {
        if (node.nodeType === 3) return tidy(node.data) ? [tidy(node.data)] : [];
        if (all.includes(node)) return [say(node)];
        if (node.tagName === "LABEL") return [say(node.control)];
        return [...node.childNodes].flatMap(walk);
    };
    const rows = [...document.querySelectorAll("h1, p, tr")];
    const shown = rows.filter((row) => view(row) >= 0 && view(row) < innerHeight);
    const lines = shown.map((row) => (row.tagName === "H1" ? "# " : "") + walk(row).join(" | ")).filter(Boolean);
    const active = document.activeElement;
    return {
        lines, elements,
        above: rows.some((row) => view(row) < 0), below: rows.some((row) => view(row) >= innerHeight),
        form: all.map((node) => node.type === "checkbox" ? node.checked : node.value ?? "").map(String),
        focus: all.indexOf(active), scroll: Math.round(scrollY),
        selection: active && active.type === "text" ? [active.selectionStart, active.selectionEnd] : [],
    };
}"""
_WRITE: Final = """([selector, told]) => {
    [...document.querySelectorAll(selector)].forEach((node, place) => {
        if (node.type === "checkbox") node.checked = told.form[place] === "true";
        else if (["SELECT", "INPUT"].includes(node.tagName)) node.value = told.form[place];
        if (place === told.focus) node.focus({preventScroll: true});
        if (place === told.focus && told.selection.length) node.setSelectionRange(...told.selection);
    });
    scrollTo(0, told.scroll);
}"""
_FIND: Final = """([selector, place]) => {
    const node = document.querySelectorAll(selector)[place];
    node.scrollIntoView({block: "nearest"});
    const box = node.getBoundingClientRect();
    return [Math.round(box.left + Math.min(box.width, innerWidth) / 2), Math.round(box.top + box.height / 2)];
}"""


class BrowserLostError(StateLostError):
    """The browser is gone, or does not answer."""


@dataclass(frozen=True)
class View:
    """What is to be seen on a page, and what is written into it.

    Args:
        lines: that are in view, with elements by number; elements: all of the page, {"role", "name", "value",
            "options"?} each, the first one has the number 1.
        form: what stands in each element; focus: the place of the one that keys go to, -1 for none; selection: in it.
    """

    lines: list[str]
    elements: list[dict[str, Any]]
    above: bool
    below: bool
    form: list[str]
    focus: int
    scroll: int
    selection: list[int]

    @property
    def text(self) -> str:
        above, below = ["(more above)"] if self.above else [], ["(more below)"] if self.below else []
        return "\n".join([*above, *self.lines, *below])

    @property
    def left(self) -> dict[str, Any]:
        """What a page that is opened anew does not have."""
        return {"form": self.form, "focus": self.focus, "scroll": self.scroll, "selection": self.selection}


@dataclass(eq=False)
class Tab:
    """A page in a context of its own, and the shop that it shows.

    Attributes:
        path: the address under which its page is found again.
    """

    host: "BrowserHost"
    shop: Shop
    path: str
    context: "BrowserContext | None" = None
    page: Any = None
    faults: list[str] = field(default_factory=list)

    def read(self) -> View:
        return self.host.ask(self._read())

    def write(self, left: Mapping[str, Any]) -> None:
        """Put what a view said was left back into the page."""
        self.host.ask(self.page.evaluate(_WRITE, [_ELEMENTS, dict(left)]))

    def find(self, number: int) -> tuple[int, int]:
        """The middle of an element, which is in view then, in pixels of the screenshot."""
        x, y = self.host.ask(self.page.evaluate(_FIND, [_ELEMENTS, number - 1]))
        return x, y

    def take_screenshot(self) -> bytes:
        return bytes(self.host.ask(self.page.screenshot(type="png", caret="hide")))

    def click(self, x: int, y: int, *, opens: bool) -> None:
        """Args:
        opens: another page comes of it.
        """
        self.host.ask(self._act(self.page.mouse.click(x, y), opens=opens))

    def press(self, key: str, *, opens: bool) -> None:
        self.host.ask(self._act(self.page.keyboard.press(key), opens=opens))

    def fill(self, number: int, text: str) -> None:
        self.host.ask(self.page.locator(_ELEMENTS).nth(number - 1).fill(text))

    def select(self, number: int, option: str) -> None:
        self.host.ask(self.page.locator(_ELEMENTS).nth(number - 1).select_option(label=option))

    def scroll(self, by_px: int) -> None:
        self.host.ask(self.page.evaluate("(by) => scrollBy(0, by)", by_px))

    def close(self) -> None:
        self.host.ask(self.host.close_tab(self))

    async def _read(self) -> View:
        return View(**await self.page.evaluate(_READ, [_ELEMENTS]))

    async def _act(self, does: Coroutine[Any, Any, None], *, opens: bool) -> None:
        if not opens:
            await does
        else:
            async with self.page.expect_navigation(wait_until="load"):
                await does
        if self.faults:
            raise BrowserLostError(f"the site is at fault: {self.faults[0]}")

    async def serve(self, route: "Route") -> None:
        """Answer a request of the page, or refuse it."""
        request = route.request
        if not request.url.startswith(f"{HOST}/") or request.resource_type != "document":
            await route.abort()
            return
        path = request.url.removeprefix(HOST)
        try:
            if request.method == "POST":
                found = send_form(self.shop, path, dict(parse_qsl(request.post_data or "", keep_blank_values=True)))
            else:
                found = open_page(self.shop, path)
        except Exception as error:  # noqa: BLE001 - it is told where the page is asked for, and not lost in this loop
            self.faults.append(f"{type(error).__name__}: {error}")
            found = Page(self.path, "")
        self.path = found.path
        await route.fulfill(status=200, content_type="text/html; charset=utf-8", body=found.html)


class BrowserHost:
    """One browser of this process. Threads may share it: all that is asked of it is done in a thread of its own.

    Attributes:
        pid: of the browser that is there; None: the next tab starts one.
        within_s: in which it must do what it is asked for.
    """

    def __init__(self, executable: str, *, idle_s: float = IDLE_S) -> None:
        self.executable, self._idle_s, self.within_s = executable, idle_s, WITHIN_S
        self.pid: int | None = None
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._launching: asyncio.Lock | None = None
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._tabs: set[Tab] = set()
        self._resting: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None

    def open_tab(self, shop: Shop, path: str = START) -> Tab:
        """The shop at an address, in a context of its own.

        Raises:
            BrowserLostError: no browser could be started.
        """
        pid = self.pid
        try:
            return self.ask(self._open_tab(Tab(self, shop, path)))
        except BrowserLostError:  # it died, or its driver did, and nobody noticed
            self.kill(pid)
            return self.ask(self._open_tab(Tab(self, shop, path)))

    def ask(self, does: Coroutine[Any, Any, T]) -> T:
        """Have something done in the browser's thread, and wait for it."""
        from playwright.async_api import Error

        future, pid = asyncio.run_coroutine_threadsafe(does, self._find_loop()), self.pid
        try:
            return future.result(self.within_s)
        except FutureTimeoutError:
            future.cancel()
            self.kill(pid)
            raise BrowserLostError(f"the browser did not answer within {self.within_s:g} s") from None
        except Error as error:
            raise BrowserLostError(f"the browser is gone: {str(error).splitlines()[0][:200]}") from None

    def kill(self, pid: int | None) -> None:
        """End a browser of ours whatever it does, unless there is another by now; the next tab has a new one."""
        if pid is not None and self.pid == pid:
            self.pid = None
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """End the browser and its thread. It may be asked again."""
        with self._starting:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._end(), loop).result(WITHIN_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WITHIN_S)
        loop.close()

    def _find_loop(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop, self._launching = asyncio.new_event_loop(), asyncio.Lock()
                self._thread = threading.Thread(target=self._loop.run_forever, name="browser", daemon=True)
                self._thread.start()
            return self._loop

    async def _open_tab(self, tab: Tab) -> Tab:
        self._rest(is_over=True)
        self._tabs.add(tab)
        try:
            browser = await self._launch()
            tab.context = await browser.new_context(
                java_script_enabled=False,
                viewport={"width": WIDTH, "height": HEIGHT},
                accept_downloads=False,
                service_workers="block",
                locale="en-GB",
            )
            await tab.context.route("**/*", tab.serve)
            tab.page = await tab.context.new_page()
            await tab.page.goto(f"{HOST}{tab.path}")
        except BaseException:
            await self.close_tab(tab)
            raise
        return tab

    async def close_tab(self, tab: Tab) -> None:
        from playwright.async_api import Error

        self._tabs.discard(tab)
        if tab.context is not None:
            with contextlib.suppress(Error):  # gone with its browser
                await tab.context.close()
        if not self._tabs:
            self._rest()

    def _rest(self, *, is_over: bool = False) -> None:
        """Nobody uses the browser from now on, or somebody does again."""
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        if not is_over:
            self._resting = asyncio.get_running_loop().call_later(self._idle_s, self._end_idle)

    def _end_idle(self) -> None:
        self._ending = asyncio.get_running_loop().create_task(self._end(unless_used=True))

    async def _launch(self) -> "Browser":
        """The browser, which is there or is started."""
        from playwright.async_api import async_playwright

        assert self._launching is not None
        async with self._launching:
            if self._browser is not None and self._browser.is_connected() and self.pid is not None:
                return self._browser
            await self._shut()
            self._playwright = await async_playwright().start()
            self._browser = await self._playwright.chromium.launch(
                executable_path=self.executable,
                args=list(_SWITCHES),
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
            session = await self._browser.new_browser_cdp_session()
            told = await session.send("SystemInfo.getProcessInfo")
            await session.detach()
            self.pid = next(int(one["id"]) for one in told["processInfo"] if one["type"] == "browser")
            logger.info("browser %s started as process %s", self._browser.version, self.pid)
            return self._browser

    async def _end(self, *, unless_used: bool = False) -> None:
        assert self._launching is not None
        async with self._launching:
            if not (unless_used and self._tabs):
                await self._shut()

    async def _shut(self) -> None:
        """End what there is of a browser, whatever is left of it."""
        browser, driver = self._browser, self._playwright
        self._browser = self._playwright = None
        for one in (browser.close if browser else None, driver.stop if driver else None):
            if one is not None:
                with contextlib.suppress(Exception):  # it is to be gone, and may be so already
                    await one()
        self.kill(self.pid)
