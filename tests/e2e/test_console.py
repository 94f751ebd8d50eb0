"""The console in a real browser: what people do in it, live, with scripts and without, under the strict policy."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Page, ViewportSize, WebSocketRoute, expect

from apps.accounts.models import Member, Role, User
from apps.audit.services import move
from apps.feedback.models import Feedback, Review
from apps.rollouts.models import Rollout
from apps.tasks.models import Attempt, Task
from apps.worlds.models import RepoTaskAdmission
from tests.e2e.browser import Watch, open_context, sign_in
from tests.e2e.pages import find_pages
from tests.e2e.scenery import build_scene
from tests.factories import make_project, make_task, make_user, make_worker
from tests.verification.repos import make_task as make_repo_task

pytestmark = pytest.mark.browser

NARROW: ViewportSize = {"width": 360, "height": 740}
OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_a_task_is_submitted_and_its_page_follows_it_without_a_reload(address: str, opened: tuple[Page, Watch]) -> None:
    page, watch = opened
    project = make_project()
    make_worker(project)
    sign_in(page, address, "alice")
    page.get_by_role("link", name="Submit a task").first.click()
    page.get_by_label("Prompt").fill("Say hello to the new colleague.")
    page.get_by_label("Attempts").fill("1")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Queued")
    expect(page.locator("[data-live-state]")).to_have_text("Live")
    page.evaluate("() => { window.notReloaded = true }")
    task = Task.objects.get()
    move(task, Task.State.WORKING, by="pipeline")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Working")
    Attempt.objects.create(task=task, index=0, worker=task.worker, answer="Hello, Ana!", score=0.75)
    move(task, Task.State.SCORING, by="pipeline")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Scoring")
    expect(page.locator("#attempt-1")).to_contain_text("Hello, Ana!")
    expect(page.locator("#attempt-1")).to_contain_text("0.75")
    assert page.evaluate("() => window.notReloaded") is True
    assert watch.problems == []


def test_what_somebody_folded_out_stays_open_when_the_page_refreshes_itself(
    address: str, opened: tuple[Page, Watch]
) -> None:
    page, watch = opened
    scene = build_scene(updates=1)
    sign_in(page, address, "alice")
    page.goto(address + reverse("console:task", args=("desk", scene.in_review.pk)))
    page.locator("#attempt-2 > summary").click()
    expect(page.locator("[data-live-state]")).to_have_text("Live")
    move(scene.in_review, Task.State.LEARNING, by="pipeline")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Learning")
    expect(page.locator("#attempt-2")).to_have_attribute("open", "")
    assert watch.problems == []


def test_the_dashboards_chart_draws_and_grows(address: str, opened: tuple[Page, Watch]) -> None:
    page, watch = opened
    scene = build_scene(updates=3)
    sign_in(page, address, "alice")
    expect(page.locator(".plot canvas")).to_have_count(2)
    expect(page.locator(".said").nth(1)).to_have_text("Batch 4: 0.5765")
    expect(page.locator("[data-live-state]")).to_have_text("Live")
    Rollout.objects.filter(training_use__batch=scene.failed_run.batch_id).update(reward=0.25)
    move(scene.failed_run, "queued", by="sweep")
    expect(page.locator(".said").nth(1)).to_have_text("Batch 4: 0.25")
    assert watch.problems == []


def test_files_too_large_for_a_request_are_sent_in_parts_before_their_form(
    address: str, opened: tuple[Page, Watch], tmp_path: Path, settings: Any
) -> None:
    page, watch = opened
    settings.ARTIFACTS = tmp_path
    make_project()
    make_user("alice")
    User.objects.filter(username="alice").update(is_superuser=True)
    bundle = b"# v2 git bundle\n" + bytes(range(256)) * 10_000  # of 2.5 MB
    rows = json.dumps(make_repo_task(name="calc-1").to_json()).encode()
    sign_in(page, address, "alice")
    page.goto(address + reverse("console:repo-task-add", args=("shop",)))
    page.get_by_label("Tasks").set_input_files({"name": "rows.jsonl", "mimeType": "", "buffer": rows})
    page.get_by_label("Repository").set_input_files({"name": "calc.bundle", "mimeType": "", "buffer": bundle})
    page.get_by_role("button", name="Hand in").click()
    handed_in = page.locator("#repo_task_admissions")
    expect(handed_in).to_contain_text("Queued")
    expect(page.locator("[data-live-state]")).to_have_text("Live")
    row = RepoTaskAdmission.objects.get()
    assert row.repository == hashlib.sha256(bundle).hexdigest()
    assert (tmp_path / "uploads" / row.repository).read_bytes() == bundle
    move(row, RepoTaskAdmission.State.RUNNING, by="worlds", runs=2)
    expect(handed_in).to_contain_text("Running")
    expect(handed_in).to_contain_text("2 of 6")
    assert watch.problems == []


def test_after_a_lost_connection_the_page_catches_up(address: str, opened: tuple[Page, Watch]) -> None:
    page, watch = opened
    task = make_task(make_project())
    sockets: list[WebSocketRoute] = []

    def pass_on(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        socket.connect_to_server()

    page.route_web_socket(re.compile("/ws/live/"), pass_on)
    sign_in(page, address, "alice")
    page.goto(address + reverse("console:task", args=("shop", task.pk)))
    expect(page.locator("[data-live-state]")).to_have_text("Live")
    before = len(sockets)
    sockets[-1].close(code=1001)
    expect(page.locator("[data-live-state]")).to_have_text("Reconnecting")
    move(task, Task.State.WORKING, by="pipeline")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Working")
    assert len(sockets) > before
    assert watch.problems == []


def test_a_review_is_taken_and_answered(address: str, opened: tuple[Page, Watch]) -> None:
    page, watch = opened
    scene = build_scene(updates=1)
    sign_in(page, address, "bob")
    page.get_by_role("link", name="Reviews").click()
    page.get_by_role("button", name=f"Review task {scene.in_review.pk}").click()
    page.get_by_label("Score, Answer A, step 2").fill("0.5")
    page.get_by_label("Overall score").fill("0.7")
    page.get_by_label("What should the worker learn?").fill("Old customers pay no surcharge.")
    page.get_by_label("Best: Answer B").check()
    page.get_by_role("button", name="Send feedback").click()
    expect(page.get_by_role("status")).to_contain_text("is recorded")
    feedback = Feedback.objects.get(review=scene.review)
    assert (feedback.score, feedback.author) == (0.7, "user:bob")
    assert watch.problems == []


def test_without_scripts_everything_can_still_be_done(address: str, browser: Browser) -> None:
    scene = build_scene(updates=1)
    make_worker(scene.project, name="parrot")
    context, _ = open_context(browser, java_script_enabled=False)
    page = context.new_page()
    sign_in(page, address, "alice")
    page.get_by_role("link", name="Submit a task").click()
    page.get_by_label("Worker").select_option(label="parrot")
    page.get_by_label("Environment").select_option("chat")
    page.get_by_label("Prompt").fill("Say hello.")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("status")).to_contain_text("is queued")
    page.get_by_role("link", name="Reviews").click()
    page.get_by_role("button", name="Take the next one").click()
    page.get_by_label("What should the worker learn?").fill("Nothing new.")
    page.get_by_role("button", name="Send feedback").click()
    assert Review.objects.get(pk=scene.review.pk).state == "closed"
    page.get_by_role("link", name="Failed work").click()
    page.get_by_role("button", name="Replay work").click()
    expect(page.get_by_role("status")).to_contain_text("at work again")
    page.get_by_role("link", name="Dashboard").click()
    page.get_by_text("Show as a table").first.click()
    expect(page.locator("#accuracy-table")).to_be_visible()
    page.get_by_text("Ticket desk").first.click()
    page.locator(".user-menu > summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    context.close()


def test_the_admin_keeps_to_the_policy_too(address: str, opened: tuple[Page, Watch]) -> None:
    page, watch = opened
    scene = build_scene(updates=1)
    make_user("root", is_superuser=True, is_staff=True)
    sign_in(page, address, "root")
    for name, row in (("audit_auditentry", None), ("tasks_task", scene.reviewed), ("adapters_adapter", scene.adapter)):
        page.goto(address + reverse(f"admin:{name}_changelist"))
        if row is not None:
            page.goto(address + reverse(f"admin:{name}_change", args=[row.pk]))
        page.wait_for_load_state("networkidle")
    page.goto(f"{address}/admin/")
    page.wait_for_load_state("networkidle")
    assert watch.problems == []


def test_htmx_attributes_that_slip_into_a_page_are_dead(address: str, opened: tuple[Page, Watch]) -> None:
    page, watch = opened
    scene = build_scene(updates=1)
    sign_in(page, address, "alice")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate(
        """() => {
            const planted = document.createElement("div");
            planted.setAttribute("hx-get", "/planted/");
            planted.setAttribute("hx-trigger", "load");
            document.querySelector("main").append(planted);
            htmx.process(planted);
        }"""
    )
    page.goto(address + find_pages(scene)["tasks"])
    assert not any("planted" in url for url in asked)
    assert any("hx-csp" in problem for problem in watch.problems)


def test_rows_are_ticked_by_mouse_and_key_and_stay_so_and_a_key_leads_to_the_search(
    address: str, opened: tuple[Page, Watch]
) -> None:
    page, watch = opened
    scene = build_scene(updates=1)
    Member.objects.filter(project=scene.project, user=scene.alice).update(role=Role.OWNER)
    sign_in(page, address, "alice")
    page.goto(address + reverse("console:task-list", args=("desk",)))
    boxes, said = page.locator("input[form=ticks][name=id]"), page.locator("[data-ticked]")
    page.keyboard.press("x")
    expect(boxes.nth(0)).to_be_checked()
    boxes.nth(1).click()
    boxes.nth(3).click(modifiers=["Shift"])
    expect(said).to_have_text("4 chosen")
    page.get_by_label("All on this page").check()
    expect(said).to_have_text(f"{boxes.count()} chosen")
    page.get_by_label("All on this page").uncheck()
    tick = page.locator(f"#tick-{scene.in_review.pk}")
    tick.check()
    expect(page.locator("[data-live-state]")).to_have_text("Live")
    move(scene.in_review, Task.State.LEARNING, by="pipeline")
    expect(page.get_by_role("row").filter(has=tick)).to_contain_text("Learning")
    expect(tick).to_be_checked()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys").locator("kbd")).to_have_text(["/", "?", "x"])
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search")).to_be_focused()
    page.keyboard.type("x/")
    expect(page.get_by_role("searchbox", name="Search")).to_have_value("x/")
    expect(said).to_have_text("1 chosen")
    assert watch.problems == []
