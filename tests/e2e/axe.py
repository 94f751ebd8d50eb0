"""axe-core in a page: what of WCAG 2.2 AA it breaks. Injected by the debugger, so that the policy stays as it is."""

from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.e2e.browser import Watch

SCRIPT = Path(__file__).parent / "vendor" / "axe-core@4.14.1" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
RUN = """async (tags) => {
    const found = await axe.run(document, {runOnly: {type: "tag", values: tags}, resultTypes: ["violations"],
        preload: false});  // only films and sounds that start by themselves would need it; here are none
    return found.violations.map((one) => [one.id, one.nodes.length, one.nodes[0].html.slice(0, 160),
        one.nodes[0].failureSummary.slice(0, 300)]);
}"""


@cache
def read_script() -> str:
    return SCRIPT.read_text(encoding="utf-8")


def find_violations(page: Page) -> list[Any]:
    """[rule, number of elements, the first one, what is wrong with it]; [] for a clean page."""
    for watch in Watch.opened:
        watch.is_with_axe = True
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(read_script())
    found: list[Any] = page.evaluate(RUN, TAGS)
    return found
