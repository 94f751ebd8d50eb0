"""Pages by cursor: no row twice, none missing, whatever is inserted meanwhile."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.models import Project
from apps.tasks.models import Task
from apps.workers.models import Worker
from tests.edges.caller import Caller
from tests.factories import make_task


def read_page(caller: Caller, path: str, limit: int, cursor: str | None) -> Any:
    suffix = f"&cursor={cursor}" if cursor else ""
    answer = caller.get(f"{path}{'&' if '?' in path else '?'}limit={limit}{suffix}")
    assert answer.status == 200, answer
    return answer.body


@given(st.data())
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_inserts_and_changes_between_pages_move_nothing(
    as_alice: Caller, project: Project, worker: Worker, data: st.DataObject
) -> None:
    Task.objects.all().delete()
    before = {make_task(project, worker).pk for _ in range(data.draw(st.integers(0, 12)))}
    seen: list[int] = []
    cursor = None
    while True:
        page = read_page(as_alice, "tasks", data.draw(st.integers(1, 5)), cursor)
        seen += [row["id"] for row in page["results"]]
        for _ in range(data.draw(st.integers(0, 3))):
            make_task(project, worker)
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(seen) == len(set(seen))
    assert before <= set(seen)
    assert seen == sorted(seen, reverse=True)


def test_removals_between_pages_skip_nobody(as_alice: Caller, project: Project, worker: Worker) -> None:
    rows = [make_task(project, worker).pk for _ in range(9)]
    page = read_page(as_alice, "tasks", 3, None)
    Task.objects.filter(pk__in=[rows[-1], rows[-3], rows[4]]).delete()
    rest = read_page(as_alice, "tasks", 200, page["next_cursor"])
    assert [row["id"] for row in rest["results"]] == [rows[5], rows[3], rows[2], rows[1], rows[0]]


@pytest.mark.parametrize("limit", ["0", "201", "-1", "x", "", "1.5", "9" * 30, "٣"])
def test_a_limit_that_cannot_be_is_refused(as_alice: Caller, limit: str) -> None:
    answer = as_alice.get(f"tasks?limit={limit}")
    assert answer.status == 400
    assert "1 to 200" in answer.body["errors"]["limit"][0]


@pytest.mark.parametrize("cursor", ["x", "MTI", "MTIuMDAwMDAwMDAwMDAwMDAwMA", "%00", "a" * 1000, "é", "====", "MQ=="])
def test_a_cursor_that_is_not_ours_is_refused(as_alice: Caller, cursor: str) -> None:
    answer = as_alice.get(f"tasks?cursor={cursor}")
    assert answer.status == 400, answer
    assert "cursor" in answer.body["errors"]


def test_a_parameter_nobody_knows_is_refused_by_name(as_alice: Caller) -> None:
    answer = as_alice.get("tasks?sate=done")
    assert answer.status == 400
    assert "sate" in answer.body["errors"]


@pytest.mark.parametrize("query", ["state=asleep", "parent=x", "environment=moon", "project=%00"])
def test_a_filter_that_cannot_be_is_refused_by_name(as_alice: Caller, query: str) -> None:
    answer = as_alice.get(f"tasks?{query}")
    assert answer.status == 400, answer
    assert query.split("=")[0] in answer.body["errors"]


@pytest.mark.parametrize("path", ["tasks/99999999999999999", "tasks?parent=99999999999999999999", "tasks?parent=1e400"])
def test_numbers_beyond_the_database_are_no_breakdown(as_alice: Caller, path: str) -> None:
    assert as_alice.get(path).status in {200, 400, 404}


@pytest.mark.django_db(transaction=True)
def test_the_audit_is_read_in_the_order_of_commits(call_as: Any, project: Project, worker: Worker) -> None:
    from apps.accounts.models import Member, Role, User

    Member.objects.filter(user__username="alice").update(role=Role.OWNER)
    caller = call_as(User.objects.get(username="alice"))
    for number in range(7):
        caller.post("tasks", {"project": "shop", "prompt": f"Say {number}.", "environment": "chat"})
    seen: list[int] = []
    cursor = None
    while True:
        page = read_page(caller, "audit?kind=task.submitted", 3, cursor)
        seen += [row["id"] for row in page["results"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(seen) == 7
    after = caller.get(f"audit?kind=task.submitted&after={seen[3]}").body["results"]
    assert [row["id"] for row in after] == seen[4:]
    lines = caller.get("audit/export?kind=task.submitted").content.splitlines()
    assert len(lines) == 7
    assert caller.get("audit/verify").body["is_clean"] is True
    assert caller.get("audit?after=x").status == 400
