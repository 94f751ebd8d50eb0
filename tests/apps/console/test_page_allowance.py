"""A page shows so much of other people's text and no more; the rest stands behind a link to its next part."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from apps.console.rendering.allowance import MOST_MARKDOWN_ON_A_PAGE, MOST_ON_A_PAGE, PageAllowance
from apps.tasks.models import Step
from tests.factories import make_attempt, make_project, make_task, make_user

pytestmark = pytest.mark.django_db


def test_every_text_of_a_page_stands_in_exactly_one_of_its_parts() -> None:
    sizes = [16_000, 300_000, 90, 64_000, 64_000, 399_999, 1_000_000, 700]
    parts = [PageAllowance(part) for part in range(1, 12)]
    for size in sizes:
        shares = [part.take(size) for part in parts]
        assert len({share.part for share in shares}) == 1
        assert sum(share.is_shown for share in shares) == (len(parts) if size == 90 else 1)


def test_markdown_stops_before_the_characters_do() -> None:
    page = PageAllowance(1)
    shares = [page.take(16_000, has_markup=True) for _ in range(MOST_ON_A_PAGE // 16_000)]
    assert [share.is_shown for share in shares] == [True] * len(shares)
    assert sum(share.may_mark_up for share in shares) == MOST_MARKDOWN_ON_A_PAGE // 16_000


def test_a_page_of_sixty_long_texts_shows_them_all_in_parts(client: Client) -> None:
    project = make_project()
    attempt = make_attempt(make_task(project))
    attempt.steps.all().delete()
    Step.objects.bulk_create(
        Step(attempt=attempt, index=place, kind="step", text=f"<{place}>" + "[" * 15_900) for place in range(60)
    )
    client.force_login(make_user("alice"))
    address = reverse("console:task", args=(project.slug, attempt.task_id))
    seen = list[int]()
    for part in (1, 2, 3):
        page = client.get(address, {"words": part}).content.decode()
        seen += [int(place) for place in re.findall(r"&lt;(\d+)&gt;\[{15900}", page)]
        assert len(page) < 2 * MOST_ON_A_PAGE
        assert set(re.findall(r'href="\?words=(\d+)"', page)) == {"1", "2", "3"} - {str(part)}
    assert sorted(seen) == list(range(60))
