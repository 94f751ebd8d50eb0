"""Operations pages in Chromium: a run draws its new points by itself, a roll back is confirmed, links by keyboard."""

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, expect

from apps.adapters.models import Deployment
from apps.training.models import TrainingRun
from tests.e2e.browser import open_context, sign_in
from tests.e2e.scenery import build_scene

pytestmark = pytest.mark.browser


def test_a_run_under_way_draws_its_new_points_by_itself(browser: Browser, address: str) -> None:
    scene = build_scene(updates=1)
    TrainingRun.objects.filter(pk=scene.run.pk).update(state="running", metrics=scene.run.metrics[:4])
    context, watch = open_context(browser)
    page = context.new_page()
    sign_in(page, address, "alice")
    page.goto(address + reverse("console:run", args=("desk", scene.run.pk)))
    figure = page.locator("figure.chart").first
    expect(figure.locator("canvas")).to_be_visible()
    expect(figure.locator(".said")).to_contain_text("Update 4:")
    TrainingRun.objects.filter(pk=scene.run.pk).update(metrics=scene.run.metrics)
    expect(figure.locator(".said")).to_contain_text("Update 8:")
    figure.locator("summary").click()
    expect(figure.locator("tbody tr")).to_have_count(8)
    TrainingRun.objects.filter(pk=scene.run.pk).update(state="succeeded")
    expect(page.get_by_text("new points come")).to_have_count(0)
    figures = page.locator("figure.chart")
    over = figures.nth(0).locator(".u-over")
    over.hover()
    update = (figures.nth(0).locator(".said").text_content() or "").partition(":")[0]
    expect(figures.nth(1).locator(".said")).to_contain_text(f"{update}:")  # they share the cursor
    box = over.bounding_box()
    assert box is not None
    page.mouse.down()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    page.get_by_role("button", name="Reset zoom").click()
    expect(page.get_by_role("button", name="Reset zoom")).to_be_hidden()
    page.get_by_label("Smoothed").check()
    expect(figures.nth(0).locator(".said")).not_to_contain_text("Update 8: 0.6031")
    page.goto(address + reverse("console:run-list", args=("desk",)))
    expect(page.locator("figure.chart").first.locator(".said")).to_contain_text(f"v1, Run {scene.run.pk}:")
    assert watch.problems == []
    context.close()


def test_a_roll_back_is_confirmed_without_scripts(browser: Browser, address: str) -> None:
    scene = build_scene(updates=1)
    context, _ = open_context(browser, java_script_enabled=False)
    page = context.new_page()
    sign_in(page, address, "alice")
    page.goto(address + reverse("console:adapter", args=("desk", scene.adapter.pk)))
    page.get_by_role("link", name="Roll back to the base model").click()
    expect(page.get_by_role("heading", name="What will happen")).to_be_visible()
    assert Deployment.objects.get(worker=scene.worker).adapter == scene.adapter
    page.get_by_role("button", name="Roll back to the base model").click()
    expect(page.get_by_text("desk is rolled back.")).to_be_visible()
    assert Deployment.objects.get(worker=scene.worker).adapter is None
    context.close()


def test_the_lineages_boxes_are_links_that_the_keyboard_reaches(browser: Browser, address: str) -> None:
    scene = build_scene(updates=2)
    context, watch = open_context(browser)
    page = context.new_page()
    sign_in(page, address, "alice")
    page.goto(address + reverse("console:adapter-list", args=("desk",)))
    box = page.locator(".lineage a[aria-label^='version 2']")
    page.locator(".lineage").focus()
    for _ in range(12):
        page.keyboard.press("Tab")
        if box.evaluate("node => node === document.activeElement"):
            break
    page.keyboard.press("Enter")
    page.wait_for_url(address + reverse("console:adapter", args=("desk", scene.adapter.pk)))
    assert watch.problems == []
    context.close()
