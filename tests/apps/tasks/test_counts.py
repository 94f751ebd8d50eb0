"""Counts of tasks: by state, of one project, and no further than they are asked to go."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Project
from apps.tasks.models import Task
from apps.tasks.selectors import BoundedCount, count_tasks
from tests.factories import make_project, make_task

pytestmark = pytest.mark.django_db


def test_tasks_are_counted_by_state_in_one_statement(project: Project) -> None:
    for state in ("queued", "queued", "in_review", "done"):
        make_task(project, state=state)
    make_task(make_project("other"), state="queued")
    with CaptureQueriesContext(connection) as captured:
        found = count_tasks(project.pk, [Task.State.QUEUED, Task.State.WORKING, Task.State.IN_REVIEW])
    assert found == {"queued": 2, "in_review": 1}
    assert [str(count) for count in found.values()] == ["2", "1"]
    assert len(captured) == 1


def test_counting_stops_and_says_so(project: Project) -> None:
    for _ in range(3):
        make_task(project, state="queued")
    exact = count_tasks(project.pk, ["queued"], most=3)["queued"]
    assert (exact, exact.is_more, str(exact)) == (3, False, "3")
    capped = count_tasks(project.pk, ["queued"], most=2)["queued"]
    assert (capped, capped.is_more, str(capped)) == (2, True, "2+")


def test_a_count_reads_like_a_number() -> None:
    assert str(BoundedCount(10_000, is_more=True)) == "10,000+"
    assert sum([BoundedCount(2), BoundedCount(3)]) == 5
