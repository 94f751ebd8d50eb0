"""An agent asks over REST while a person watches: by mouse, by keyboard, by two people at once, and without scripts."""

import threading
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect

from apps.accounts.models import Project
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.supervision.models import Proposal
from apps.supervision.services import decide
from apps.tasks.models import Task
from tentalis.client import Client
from tests.apps.supervision.builders import REFUND, make_agent, make_proposal, make_supervised_task
from tests.e2e.axe import bring_axe, find_violations
from tests.e2e.browser import Watch, open_context, sign_in
from tests.factories import make_project, make_user

pytestmark = pytest.mark.browser


class Agent:
    """An outside agent in a thread of its own: proposes, waits, and keeps what it was told."""

    def __init__(self, address: str, project: Project, task: Task, **proposal: Any) -> None:
        agent = make_agent(project)
        token = create_token(user=agent, name="t", scopes=[Right.ATTEMPTS_READ, Right.ATTEMPTS_WRITE], by=agent)[1]
        self.told: dict[str, Any] = {}
        self._client = Client(address, token)
        self._proposal: dict[str, Any] = {"task": task.pk, "action": REFUND} | proposal
        self._thread = threading.Thread(target=self._work)

    def start(self) -> "Agent":
        self._thread.start()
        return self

    def _work(self) -> None:
        with self._client:
            asked = self._client.propose(**self._proposal)
            for _ in range(4):
                self.told = self._client.get_proposal(asked["id"], wait_s=15)
                if self.told["outcome"] != "wait":
                    return

    def finish(self) -> dict[str, Any]:
        self._thread.join(timeout=60)
        assert not self._thread.is_alive()
        return self.told


def open_queue(page: Page, address: str, name: str) -> None:
    sign_in(page, address, name)
    page.goto(address + reverse("console:proposal-list", args=("shop",)))
    expect(page.get_by_role("heading", name="Approvals")).to_be_visible()


def test_an_agent_asks_the_page_shows_it_at_once_and_the_agent_gets_the_word(
    address: str, opened: tuple[Page, Watch]
) -> None:
    page, watch = opened
    project = make_project()
    task = make_supervised_task(project)
    open_queue(page, address, "bob")
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    expect(page.locator("[data-live-state]")).to_have_text("Live")
    page.evaluate("() => { window.notReloaded = true }")
    agent = Agent(address, project, task, context="Charged twice.", risk="Money is gone.").start()
    card = page.locator("article.proposal")
    expect(card).to_contain_text("Call refund")
    expect(card).to_contain_text("84.5")
    expect(page.locator("#proposal_count")).to_contain_text("1")
    assert page.evaluate("() => window.notReloaded") is True
    card.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Approved: the agent goes on.")).to_be_visible()
    told = agent.finish()
    assert (told["outcome"], told["permitted"], told["decided_by"]) == ("go_on", REFUND, "user:bob")
    expect(page.locator("#proposal_count")).not_to_contain_text("1")
    assert watch.problems == []


def test_by_keyboard_alone_three_are_answered(address: str, opened: tuple[Page, Watch]) -> None:
    page, watch = opened
    project = make_project()
    rows = [make_proposal(project, make_supervised_task(project)) for _ in range(3)]
    open_queue(page, address, "bob")
    expect(page.locator("article.proposal")).to_have_count(3)
    page.keyboard.press("a")  # nothing is chosen yet: nothing happens
    page.keyboard.press("j")
    page.keyboard.press("a")
    expect(page.locator("article.proposal")).to_have_count(2)
    expect(page.locator("article.proposal:focus")).to_have_count(1)  # the next one is chosen already
    page.keyboard.press("r")
    page.keyboard.type("area: too much")  # keys are letters while somebody types
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("article.proposal")).to_have_count(1)
    expect(page.locator("article.proposal:focus")).to_have_count(1)
    page.keyboard.press("e")
    page.keyboard.press("Escape")
    page.keyboard.press("h")
    page.keyboard.type("House rule 4.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    found = {row.pk: (row.state, row.decision) for row in Proposal.objects.all()}
    assert found == {
        rows[0].pk: ("approved", {}),
        rows[1].pk: ("rejected", {"reason": "area: too much"}),
        rows[2].pk: ("hinted", {"hint": "House rule 4."}),
    }
    assert watch.problems == []


def test_every_key_is_in_the_help_and_works_and_all_can_be_switched_off(
    address: str, opened: tuple[Page, Watch]
) -> None:
    page, watch = opened
    project = make_project()
    proposal = make_proposal(project)
    open_queue(page, address, "bob")
    page.keyboard.press("?")
    help_ = page.get_by_role("dialog", name="Keys")
    expect(help_.locator("kbd")).to_have_text(["/", "?", "j", "Down", "k", "Up", "a", "r", "e", "h", "t", "Esc"])
    page.keyboard.press("Escape")
    expect(help_).to_be_hidden()
    card = page.locator(f"#proposal-{proposal.pk}")
    for down, up in (("j", "k"), ("ArrowDown", "ArrowUp")):
        page.keyboard.press(down)
        expect(card).to_be_focused()
        page.keyboard.press(up)
        expect(card).to_be_focused()
    for key, word in (("r", "reject"), ("e", "edit"), ("h", "hint"), ("t", "take_over")):
        page.keyboard.press(key)
        opened_form = card.locator("details[open]")
        expect(opened_form.locator("[name=decision]")).to_have_value(word)
        expect(card.locator(f"[data-answer={word}]")).to_have_attribute("aria-keyshortcuts", key)
        page.keyboard.press("Escape")
        expect(opened_form).to_have_count(0)
    page.get_by_role("button", name="Keys").click()
    page.get_by_label("Single keys act at once").uncheck()
    page.get_by_role("button", name="Close").click()
    card.focus()
    page.keyboard.press("a")
    page.keyboard.press("r")
    expect(card.locator("details[open]")).to_have_count(0)
    expect(card.locator("[data-answer=approve]")).not_to_have_attribute("aria-keyshortcuts", "a")
    assert Proposal.objects.get().state == "pending"
    assert watch.problems == []


def test_two_look_at_one_proposal_and_the_second_sees_whose_word_it_was(
    address: str, opened: tuple[Page, Watch]
) -> None:
    page, watch = opened
    project = make_project()
    first, second = make_proposal(project), make_proposal(project)
    open_queue(page, address, "bob")
    expect(page.locator("[data-live-state]")).to_have_text("Live")
    kept = page.locator(f"#proposal-{second.pk}")
    kept.get_by_text("Give a hint").first.click()
    kept.get_by_label("What should it think of?").fill("half a sent")
    decide(proposal=first, decision="reject", reason="No.", by=make_user("alice"))
    expect(page.locator(f"#proposal-{first.pk}")).to_have_count(0)
    expect(page.locator(".recent")).to_contain_text("alice")
    expect(kept.get_by_label("What should it think of?")).to_have_value("half a sent")
    assert watch.problems == []


def test_without_scripts_every_answer_is_a_form(address: str, browser: Browser) -> None:
    project = make_project()
    task = make_supervised_task(project)
    context, watch = open_context(browser, java_script_enabled=False)
    page = context.new_page()
    agent = Agent(address, project, task)
    make_proposal(project, task)
    open_queue(page, address, "bob")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Approved: the agent goes on.")).to_be_visible()
    agent.start()
    waiting = Proposal.objects.filter(state="pending")
    for _ in range(100):
        if waiting.exists():
            break
        threading.Event().wait(0.1)
    page.goto(address + reverse("console:proposal-list", args=("shop",)))
    page.get_by_text("Change it").click()
    page.get_by_label("amount").fill("20")
    page.get_by_role("button", name="Approve with these changes").click()
    expect(page.get_by_text("Approved with your changes.")).to_be_visible()
    assert agent.finish()["permitted"]["arguments"] == {"order": 17, "amount": 20.0, "notify": True}
    page.get_by_role("link", name="Decided", exact=True).click()
    expect(page.get_by_role("row")).to_have_count(3)
    assert watch.problems == []
    context.close()


OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_the_pages_are_accessible_empty_full_open_and_in_error(address: str, opened: tuple[Page, Watch]) -> None:
    page, watch = opened
    bring_axe(page.context)
    project = make_project()
    found: list[Any] = []

    def look(where: str) -> None:
        for width in (1280, 320):
            page.set_viewport_size({"width": width, "height": 800})
            for theme in ("light", "dark"):
                page.emulate_media(color_scheme=theme, reduced_motion="reduce")
                found.extend((where, theme, width, *violation) for violation in find_violations(page))
            found.extend([(where, width, "runs off the side")] if page.evaluate(OVERFLOW) > 0 else [])

    def go(name: str, *args: object) -> None:
        page.goto(address + reverse(f"console:{name}", args=("shop", *args)))

    sign_in(page, address, "alice")
    for name in ("proposal-list", "proposal-decided", "proposal-rules"):
        go(name)
        look(f"empty {name}")
    task = make_supervised_task(project)
    decided = make_proposal(project, task, action={"kind": "message", "text": "Hello. " * 300})
    smaller = REFUND | {"arguments": {"order": 17, "amount": 20.0, "notify": True}}
    edited = make_proposal(project, task)
    decide(proposal=decided, decision="hint", hint="Shorter.", by=make_user("bob"))
    decide(proposal=edited, decision="edit", action=smaller, by=make_user("bob"))
    waiting = make_proposal(project, task, context="line\n" * 200, risk="Money is gone.", step_index=2)
    go("proposal-list")
    page.keyboard.press("j")
    page.keyboard.press("e")
    look("queue with an open form")
    for row in (decided, edited, waiting):
        go("proposal", row.pk)
        look(f"proposal {row.state}")
    page.get_by_text("Reject", exact=True).first.click()
    page.get_by_label("Why not?").fill(" ")
    page.locator("details[open] button").click()
    expect(page.get_by_text("Please correct the fields marked below")).to_be_visible()
    look("a refused form")
    go("proposal-decided")
    look("decided")
    go("proposal-rules")
    page.get_by_text("Change its rules").click()
    look("rules")
    assert found == []
    assert watch.problems == []
