"""The console when things go wrong: a session that ended, a server that is away, keys held down, forms sent twice."""

import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Page, Route, WebSocketRoute, expect

from apps.accounts.models import BrowserSession
from apps.audit.services import move
from apps.feedback.models import Feedback, ReviewDraft
from apps.supervision.models import Proposal
from apps.tasks.models import Task
from tests.apps.supervision.builders import make_proposal, make_supervised_task
from tests.e2e.browser import Watch, sign_in
from tests.e2e.test_review import make_review, open_review
from tests.factories import make_project, make_task, make_user, make_worker

pytestmark = pytest.mark.browser

TELL_WAITS = """
    const wait = setTimeout;
    window.waits = [];
    window.setTimeout = (run, ms) => {
        if (run.name === "connect") waits.push(ms);
        return wait(run, ms);
    };
"""
# what the page would send is told and goes nowhere, as on a network that is slow for ever
HOLD = """() => {
    window.went = [];
    addEventListener("submit", (event) => {
        if (!event.defaultPrevented) went.push(event.submitter.textContent);
        event.preventDefault();
    });
}"""


def test_what_is_typed_after_the_session_ended_is_kept_and_the_page_says_so(
    address: str, opened: tuple[Page, Watch]
) -> None:
    page, _ = opened
    open_review(page, address, make_review())
    path = page.url
    BrowserSession.objects.all().delete()
    page.locator("#id_text").fill("My careful words.")
    expect(page.get_by_role("alert").first).to_contain_text("signed out")
    sign_in(page, address, "bob")
    page.goto(path)
    expect(page.locator("#id_text")).to_have_value("My careful words.")
    expect(page.locator("[data-draft-state]")).to_have_text("Draft saved")


def test_a_judgement_sent_while_the_server_is_away_is_not_lost(address: str, opened: tuple[Page, Watch]) -> None:
    page, _ = opened
    open_review(page, address, make_review())
    path = page.url

    def fail(route: Route) -> None:
        route.abort()

    page.route(re.compile("/reviews/"), fail)
    page.locator("#id_text").fill("My careful words.")
    expect(page.locator("[data-draft-state]")).to_contain_text("The server is away")
    with page.expect_event("requestfailed", lambda one: one.is_navigation_request()):
        page.get_by_role("button", name="Send feedback").click()
    page.unroute(re.compile("/reviews/"), fail)
    page.goto(path)
    expect(page.locator("#id_text")).to_have_value("My careful words.")
    page.get_by_role("button", name="Send feedback").click()
    expect(page.locator(".undo")).to_contain_text("recorded")
    assert Feedback.objects.get().text == "My careful words."
    assert page.evaluate("() => Object.keys(localStorage).filter((key) => key.includes('draft'))") == []


def test_what_only_this_browser_has_is_offered_beside_a_draft_that_was_saved_meanwhile(
    address: str, opened: tuple[Page, Watch]
) -> None:
    page, _ = opened
    review = make_review()
    open_review(page, address, review)

    def fail(route: Route) -> None:
        route.abort()

    page.route(re.compile("/draft/"), fail)
    page.locator("#id_text").fill("Words of this browser.")
    expect(page.locator("[data-draft-state]")).to_contain_text("The server is away")
    ReviewDraft.objects.create(review=review, user=make_user("bob"), data={"text": "Saved."}, version=1)
    page.unroute(re.compile("/draft/"), fail)
    page.reload()
    expect(page.locator("#id_text")).to_have_value("Saved.")
    page.get_by_role("button", name="Take what this browser kept").click()
    expect(page.locator("#id_text")).to_have_value("Words of this browser.")
    expect(page.locator("[data-draft-state]")).to_have_text("Draft saved")
    assert ReviewDraft.objects.get().data["text"] == "Words of this browser."


def test_a_page_that_is_left_before_it_hears_that_its_draft_came_goes_on_from_what_was_typed(
    address: str, opened: tuple[Page, Watch]
) -> None:
    page, _ = opened
    open_review(page, address, make_review())

    def lose_answer(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route(re.compile("/draft/"), lose_answer, times=1)
    page.locator("#id_text").fill("Name the")
    expect(page.locator("[data-draft-state]")).to_contain_text("The server is away")
    assert ReviewDraft.objects.get().data["text"] == "Name the"
    page.locator("#id_text").fill("Name the rule.")
    page.reload()
    expect(page.locator("#id_text")).to_have_value("Name the rule.")
    expect(page.locator("[data-draft-state]")).to_have_text("Draft saved")


def test_a_field_that_was_emptied_while_the_server_was_away_comes_back_empty(
    address: str, opened: tuple[Page, Watch]
) -> None:
    page, _ = opened
    open_review(page, address, make_review())
    page.locator("#id_text").fill("Name the rule.")
    page.locator("#id_edited_answer").fill("answer 7")
    expect(page.locator("[data-draft-state]")).to_have_text("Draft saved")

    def fail(route: Route) -> None:
        route.abort()

    page.route(re.compile("/draft/"), fail)
    page.locator("#id_edited_answer").fill("")
    expect(page.locator("[data-draft-state]")).to_contain_text("The server is away")
    page.reload()
    expect(page.locator("#id_text")).to_have_value("Name the rule.")
    expect(page.locator("#id_edited_answer")).to_have_value("")


@pytest.mark.parametrize("how", ["away", "signed out"])
def test_a_part_whose_answer_is_an_error_stays_and_follows_again_afterwards(
    address: str, opened: tuple[Page, Watch], how: str
) -> None:
    page, _ = opened
    task = make_task(make_project())
    sign_in(page, address, "alice")
    page.goto(address + reverse("console:task", args=("shop", task.pk)))
    expect(page.locator("[data-live-state]")).to_have_text("Live")
    fragment = re.compile("fragment=task")
    away = {"status": 503, "content_type": "text/html", "body": "<main><h1>Away</h1></main>"}
    elsewhere = {"status": 302, "headers": {"location": "/sign-in/"}}

    def fail(route: Route) -> None:
        route.fulfill(**(away if how == "away" else elsewhere))  # type: ignore[arg-type]

    page.context.clear_cookies() if how == "signed out" else None
    page.route(fragment, fail)
    with page.expect_request_finished(lambda one: "fragment=task" in one.url or "/sign-in/" in one.url):
        move(task, Task.State.WORKING, by="pipeline")
    page.unroute(fragment, fail)
    page.wait_for_function("() => !document.querySelector('.htmx-request')")
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Task {task.pk}")
    expect(page.get_by_label("Password")).to_have_count(0)
    if how == "away":
        move(task, Task.State.SCORING, by="pipeline")
        expect(page.get_by_role("heading", level=1)).to_contain_text("Scoring")


def test_a_key_that_is_held_down_answers_one_proposal(address: str, opened: tuple[Page, Watch]) -> None:
    page, watch = opened
    project = make_project()
    for _ in range(2):
        make_proposal(project, make_supervised_task(project))
    sign_in(page, address, "bob")
    page.goto(address + reverse("console:proposal-list", args=("shop",)) + "#queue")
    expect(page.locator("article.proposal:focus")).to_have_count(1)
    page.keyboard.down("a")
    expect(page.locator("article.proposal")).to_have_count(1)
    expect(page.locator("article.proposal:focus")).to_have_count(1)
    page.keyboard.down("a")  # as a keyboard repeats it
    page.keyboard.up("a")
    page.reload()
    expect(page.locator("article.proposal")).to_have_count(1)
    assert sorted(Proposal.objects.values_list("state", flat=True)) == ["approved", "pending"]
    assert watch.problems == []


def test_a_form_that_is_sent_twice_while_the_server_is_slow_is_sent_once(
    address: str, opened: tuple[Page, Watch]
) -> None:
    page, watch = opened
    make_worker(make_project())
    sign_in(page, address, "alice")
    page.goto(address + reverse("console:task-new", args=("shop",)))
    page.get_by_label("Prompt").fill("Say hello to the new colleague.")
    page.evaluate(HOLD)
    for name in ("Submit", "Submit", "Try the example"):
        page.get_by_role("button", name=name, exact=True).click()
    assert page.evaluate("() => went") == ["Submit", "Try the example"]
    assert watch.problems == []


def test_a_socket_that_is_refused_as_soon_as_it_is_open_is_asked_for_less_and_less(
    address: str, opened: tuple[Page, Watch]
) -> None:
    page, watch = opened
    make_project()
    sockets: list[WebSocketRoute] = []

    def pass_on(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        socket.connect_to_server()

    page.add_init_script(TELL_WAITS)
    page.route_web_socket(re.compile("/ws/live/"), pass_on)
    sign_in(page, address, "alice")
    expect(page.locator("[data-live-state]")).to_have_text("Live")
    page.evaluate("() => { document.body.dataset.livePath = '/ws/live/?batched=no&was=' }")
    sockets[-1].close(code=1001)
    page.wait_for_function("() => waits.length > 2")
    assert page.evaluate("() => waits.slice(0, 3)") == [500, 1000, 2000]
    assert watch.problems == []


def test_the_last_judgement_can_be_undone_by_whose_clock_is_wrong(address: str, opened: tuple[Page, Watch]) -> None:
    page, _ = opened
    first, second = make_review(), make_review(prompt="The next one.")
    page.clock.install(time=timezone.now() + timedelta(hours=1))
    open_review(page, address, first)
    page.locator("#id_text").fill("Too hasty.")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile(f"/reviews/{second.pk}/"))
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#id_text")).to_have_value("Too hasty.")
