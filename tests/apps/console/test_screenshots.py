"""What calls of an episode were done on, beside its steps on the pages of reviews and tasks, for who may see them."""

from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from apps.accounts.models import Project
from apps.feedback.claims import claim
from apps.feedback.models import Review
from apps.tasks.models import Task
from apps.tasks.observations import find_all_observed, keep_observed
from tests.apps.console.builders import PNG, draw_screenshots, sign_in
from tests.factories import make_attempt, make_project, make_task, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def task(project: Project, tmp_path: Path, settings: Any) -> Task:
    settings.ARTIFACTS = tmp_path
    return make_task(project, environment="gui", state=Task.State.IN_REVIEW, group_size=1)


def address(task: Task, sha256: str, index: int = 0) -> str:
    return reverse("console:screenshot", args=(task.project.slug, task.pk, index, sha256))


def test_a_reviewer_sees_what_each_call_was_done_on_and_where(task: Task) -> None:
    sha256 = draw_screenshots(make_attempt(task), [113, 46.5], None)
    review = Review.objects.create(project=task.project, task=task, audience="human", reason="sampled")
    bob = make_user("bob")
    claim(review=review, by=bob)
    page = sign_in(bob).get(reverse("console:review", args=("shop", review.pk))).content.decode()
    assert page.count(f'src="{address(task, sha256)}" width="640" height="480" loading="lazy"') == 2
    assert page.count('<circle class="ring"') == 1  # the other call was done at no place
    assert 'class="ring" cx="113" cy="46.5"' in page
    assert 'alt="The page at this call, which was done at 113, 46"' in page
    answer = sign_in(bob).get(address(task, sha256))
    assert (answer.status_code, answer.content, answer["Content-Type"]) == (200, PNG, "image/png")
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_the_page_of_a_task_shows_them_too(task: Task) -> None:
    sha256 = draw_screenshots(make_attempt(task), [1, 2])
    page = sign_in(task.submitted_by).get(reverse("console:task", args=("shop", task.pk))).content.decode()
    assert f'src="{address(task, sha256)}"' in page


@pytest.mark.parametrize("mark", [[641, 1], [-1, 1], [1], [1, "2"], [True, 1], "1,1", {"x": 1}, [[1], 2]])
def test_a_mark_that_is_no_place_in_the_screenshot_is_not_drawn(task: Task, mark: Any) -> None:
    draw_screenshots(make_attempt(task), mark)
    page = sign_in(task.submitted_by).get(reverse("console:task", args=("shop", task.pk))).content.decode()
    assert 'loading="lazy"' in page
    assert "<circle" not in page.partition('class="screenshot"')[2]


def test_a_screenshot_that_was_deleted_is_said_to_be(task: Task) -> None:
    attempt = make_attempt(task)
    sha256 = draw_screenshots(attempt, [1, 2])
    (path,) = find_all_observed([attempt.pk])
    path.unlink()
    client = sign_in(task.submitted_by)
    page = client.get(reverse("console:task", args=("shop", task.pk))).content.decode()
    assert "The screenshot of this call was deleted." in page
    assert client.get(address(task, sha256)).status_code == 404


def test_nobody_else_sees_one_and_no_other_file_is_given_out_under_its_name(task: Task) -> None:
    attempt = make_attempt(task)
    sha256 = draw_screenshots(attempt, [1, 2])
    text = keep_observed(attempt.pk, b"all that the world said")
    other = make_attempt(make_task(make_project("other"), environment="gui", submitted_by=make_user("dora")))
    foreign = draw_screenshots(other, [1, 2], picture=PNG + b"another")
    client = sign_in(task.submitted_by)
    for name in (text, foreign, "0" * 64, "nothing"):
        assert client.get(address(task, name)).status_code == 404
    assert client.get(address(task, sha256, index=1)).status_code == 404
    assert sign_in(make_user("charlie")).get(address(task, sha256)).status_code == 404
