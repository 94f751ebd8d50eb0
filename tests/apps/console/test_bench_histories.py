"""The histories that benches put into a database by statements of their own: today's tables take them."""

import pytest

from apps.tasks.models import Attempt
from apps.workers.models import Worker
from tests.bench.console_history import GROUP, Size, write_history
from tests.bench.history import write_rows
from tests.bench.pipeline import HISTORY

ATTEMPTS, REVIEWS, TASKS = 240, 20, 30


@pytest.mark.django_db(transaction=True)
def test_histories_that_benches_make_up_fit_todays_tables() -> None:
    write_history(Size(ATTEMPTS, REVIEWS))
    desk = Worker.objects.get(name="desk")
    owner = desk.project.members.order_by("pk")[0].user_id
    given = {"project": desk.project_id, "worker": desk.pk, "admin": owner}
    write_rows(HISTORY, given | {"tasks": TASKS, "group_size": GROUP, "batch_tasks": 24})
    assert Attempt.objects.count() == ATTEMPTS + TASKS * GROUP
