"""The whole way as a team lead walks it, on a running platform: engine, training box and queue processes are real."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tentalis.core.desk import make_tickets
from tests.chaos.stage import chaos_stack
from tests.e2e.browser import Watch, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.broker, pytest.mark.torch, pytest.mark.slow]

PASSWORD = "the-lead-has-a-password"
PATIENCE_MS = 120_000


@pytest.fixture
def platform() -> Iterator[str]:
    """Address of a whole platform of this test's own."""
    with chaos_stack(settings={"TENTALIS_ADMIN_PASSWORD": PASSWORD}) as stack:
        yield stack.state().addresses["console_url"]


def set_up(page: Page, address: str) -> None:
    """People review, one judged task is a batch, and it moves the weights so little that the gate lets it serve."""
    page.goto(f"{address}/p/desk/settings/")
    page.get_by_label("Attempts at a task").fill("12")  # so many never read all the same
    page.get_by_label("Tasks in a training batch").fill("1")
    page.get_by_role("button", name="Save Project").click()
    expect(page.get_by_role("status").filter(has_text="saved")).to_be_visible()
    page.get_by_role("link", name="Who reviews what").click()
    page.get_by_label("Reviewers").select_option(label="A person")
    page.get_by_label("Time to undo").fill("0")
    page.get_by_role("button", name="Save Who reviews what").click()
    expect(page.get_by_role("status").filter(has_text="saved")).to_be_visible()
    page.get_by_role("link", name="Training recipe").click()
    page.get_by_label("Learning rate").fill("0.00001")
    page.get_by_role("button", name="Save Training recipe").click()
    expect(page.get_by_role("status").filter(has_text="saved")).to_be_visible()


def submit_ticket(page: Page, address: str) -> None:
    ticket = make_tickets(5, 1, held_out=False)[0]
    page.goto(f"{address}/p/desk/")
    page.get_by_role("link", name="Submit a task").first.click()
    page.get_by_label("Environment").select_option("desk")
    page.get_by_label("Prompt").fill(ticket.text)
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("In review", timeout=PATIENCE_MS)


def review_by_keyboard(page: Page, address: str) -> None:
    """The step at hand is wrong, and the third answer is the best of all."""
    page.goto(f"{address}/p/desk/reviews/")
    button = page.get_by_role("button", name="Take the next one")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/reviews/\d+/"))
    for key in ("d", "]", "]", "p", "Control+Enter"):
        page.keyboard.press(key)
    page.wait_for_url(re.compile(r"/reviews/(\?.*)?$"))


def test_a_lead_submits_reviews_by_keyboard_sees_the_run_promotes_and_rolls_back(
    platform: str, opened: tuple[Page, Watch]
) -> None:
    page, watch = opened
    sign_in(page, platform, "admin", PASSWORD)
    set_up(page, platform)
    submit_ticket(page, platform)
    watching = page.context.new_page()
    watching.goto(f"{platform}/p/desk/runs/")
    expect(watching.locator("[data-live-state]")).to_have_text("Live")
    watching.evaluate("() => { window.notReloaded = true }")
    review_by_keyboard(page, platform)
    expect(watching.locator("main table.rows")).to_contain_text("Trained", timeout=PATIENCE_MS)
    assert watching.evaluate("() => window.notReloaded") is True
    page.goto(f"{platform}/p/desk/adapters/")
    served = page.locator("section", has_text="is served by").first
    expect(served).to_contain_text("desk@v1", timeout=PATIENCE_MS)
    served.get_by_role("link", name=re.compile("Roll back|base model")).click()
    page.get_by_role("button", name=re.compile("Roll back")).click()
    expect(page.get_by_role("status")).to_contain_text("rolled back")
    page.get_by_role("link", name=re.compile("desk@v1")).first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Retired")
    page.get_by_role("link", name="Put into service").click()
    page.get_by_role("button", name=re.compile("Put|Promote|service")).last.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Deployed")
    page.get_by_role("link", name="All feedback").click()
    expect(page.locator("main")).to_contain_text("admin")
    assert watch.problems == []
