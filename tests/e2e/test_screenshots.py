"""An episode's screenshots on the review page: the mark lies where the call was done, on wide and on narrow screens."""

from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, ViewportSize

from apps.feedback.claims import claim
from apps.feedback.models import Review
from tentalis.core.gui.shop import draw_shop
from tentalis.core.gui.site import open_page
from tests.apps.console.builders import draw_screenshots
from tests.e2e.axe import bring_axe, find_violations
from tests.e2e.browser import open_context, sign_in
from tests.factories import make_attempt, make_project, make_task, make_user

pytestmark = pytest.mark.browser

# a narrow screen folds the steps, at its first frame
UNFOLD = """async () => {
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    document.querySelectorAll("details[data-fold]").forEach((part) => (part.open = true));
}"""
PLACE = """() => {
    const image = document.querySelector(".screenshot img"), ring = document.querySelector(".screenshot .dot");
    const [all, one] = [image, ring].map((node) => node.getBoundingClientRect());
    const middle = [one.left + one.width / 2 - all.left, one.top + one.height / 2 - all.top];
    return {shown: image.complete && image.naturalWidth, x: middle[0] / all.width, y: middle[1] / all.height,
            width: all.width, over: document.documentElement.scrollWidth - document.documentElement.clientWidth};
}"""


def take_picture(browser: Browser) -> bytes:
    """Of a page of the shop, as the GUI world takes one."""
    page = browser.new_page(viewport=ViewportSize(width=640, height=480))
    page.set_content(open_page(draw_shop(3), "/products").html)
    picture = page.screenshot(type="png")
    page.close()
    return picture


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (360, "dark")])
def test_the_mark_lies_where_the_call_was_done(
    address: str, browser: Browser, tmp_path: Path, settings: Any, width: int, theme: Any
) -> None:
    settings.ARTIFACTS = tmp_path
    task = make_task(make_project(), environment="gui", state="in_review", group_size=1)
    attempt = make_attempt(task)
    draw_screenshots(attempt, [160, 120], picture=take_picture(browser))
    review = Review.objects.create(project=task.project, task=task, audience="human", reason="sampled")
    claim(review=review, by=make_user("bob"))
    context, watch = open_context(browser, color_scheme=theme, reduced_motion="reduce")
    bring_axe(context)
    page = context.new_page()
    page.set_viewport_size(ViewportSize(width=width, height=900))
    sign_in(page, address, "bob")
    page.goto(address + reverse("console:review", args=("shop", review.pk)))
    page.evaluate(UNFOLD)
    page.locator(".screenshot img").scroll_into_view_if_needed()
    while page.evaluate("document.querySelector('.screenshot img').naturalWidth") != 640:
        page.wait_for_timeout(10)
    found = page.evaluate(PLACE)
    assert found["x"] == pytest.approx(0.25, abs=0.01)
    assert found["y"] == pytest.approx(0.25, abs=0.01)
    assert (found["over"], found["width"] > 200) == (0, True)
    assert watch.problems == []
    assert find_violations(page) == []
    context.close()
