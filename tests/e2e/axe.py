"""axe-core in a page: what of WCAG 2.2 AA it breaks. Injected by the debugger, so that the policy stays as it is."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page

from tests.e2e.browser import Watch

SCRIPT = Path(__file__).parent / "vendor" / "axe-core@4.14.1" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
OF_THE_LOOK = ("color-contrast", "target-size", "link-in-text-block", "scrollable-region-focusable")
"""Rules whose word depends on the theme and the width; the others read the document only."""
RUN = """async (only) => {
    const options = {runOnly: only, resultTypes: ["violations"], preload: false, selectors: false};
    const found = await axe.run(document, options);
    return found.violations.map((one) => [one.id, one.nodes.length, one.nodes[0].html.slice(0, 160),
        one.nodes[0].failureSummary.slice(0, 300)]);
}"""


@cache
def read_script() -> str:
    return SCRIPT.read_text(encoding="utf-8")


def bring_axe(context: BrowserContext) -> None:
    """Into every page from now on: the browser is sent it once, not again for each page."""
    context.add_init_script(read_script())


def find_violations(page: Page, *, rules: Sequence[str] = ()) -> list[Any]:
    """[rule, number of elements, the first one, what is wrong with it]; [] for a clean page.

    Axe was brought before the page was gone to. Nothing is loaded before it looks: only films and sounds that start by
    themselves would need it; here are none.

    Args:
        rules: only these, where the others have had their word on the page as it is; (): all.
    """
    for watch in Watch.opened:
        watch.is_with_axe = True
    only = {"type": "rule", "values": rules} if rules else {"type": "tag", "values": TAGS}
    found: list[Any] = page.evaluate(RUN, only)
    return found
