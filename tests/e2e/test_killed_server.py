"""A review in the making while the web process is killed: nothing that was typed is lost."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from apps.accounts.models import Project
from apps.feedback.claims import claim
from apps.feedback.models import Review, ReviewDraft
from tests.apps.feedback.builders import make_open_review
from tests.e2e.browser import open_context, sign_in
from tests.e2e.web_process import run_web
from tests.factories import make_project, make_user

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def project(database_beside_a_loop: None, transactional_db: None) -> Project:
    return make_project()


def open_page(browser: Browser, address: str, review: Review) -> Page:
    context, _ = open_context(browser)
    page = context.new_page()
    sign_in(page, address, "bob")
    page.goto(f"{address}/p/{review.project.slug}/reviews/{review.pk}/")
    return page


def test_a_killed_server_loses_no_draft_and_the_tab_offers_what_it_missed(browser: Browser, project: Project) -> None:
    review = make_open_review(project)
    bob = make_user("bob")
    claim(review=review, by=bob)
    with run_web() as web:
        page = open_page(browser, web.address, review)
        words = page.get_by_label("What should the worker learn?")
        words.fill("Name the rule.")
        expect(page.locator("[data-draft-state]")).to_have_text("Draft saved")
        words.press_sequentially(" And the unit")
        web.kill()
        words.press_sequentially(".")
        expect(page.locator("[data-draft-state]")).to_have_text(re.compile("this browser keeps your draft"))
        kept = ReviewDraft.objects.get(review=review, user=bob).data["text"]
        assert "Name the rule. And the unit.".startswith(kept)
        assert kept.startswith("Name the rule.")
        web.start()
        page.reload()
        expect(words).to_have_value("Name the rule. And the unit.")
        expect(page.locator("[data-draft-state]")).to_have_text("Draft saved")
        assert ReviewDraft.objects.get(review=review, user=bob).data["text"] == "Name the rule. And the unit."
        elsewhere = open_page(browser, web.address, review)
        expect(elsewhere.get_by_label("What should the worker learn?")).to_have_value("Name the rule. And the unit.")
        elsewhere.context.close()
        page.context.close()
