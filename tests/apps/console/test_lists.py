"""Lists: narrowed and ordered by their address, and refused by name where it cannot be followed."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.base.word_index import MOST_INDEXED
from apps.console.preferences import save_view
from apps.feedback.models import Feedback
from apps.finding.bounds import TooBroadError, within
from apps.finding.pages import Order, turn_page
from apps.finding.tasks import TaskFilters
from apps.tasks.models import Attempt, Task
from apps.workers.models import Worker
from tests.factories import make_task, make_user, make_worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(alice: User) -> Client:
    client = Client()
    client.force_login(alice)
    return client


def ask(client: Client, page: str, query: str = "") -> tuple[int, list[int], str]:
    """(status, ids of the rows, the page)."""
    answer = client.get(f"{reverse(f'console:{page}', args=('shop',))}?{query}")
    listing = answer.context["listing"]
    return answer.status_code, [row.pk for row in listing.rows], answer.content.decode()


def test_tasks_are_narrowed_by_each_of_their_filters(client: Client, project: Project, worker: Worker) -> None:
    other = make_worker(project, name="adder")
    lamp = make_task(project, worker, prompt="Two brass-lamps for O'Hara", answer="Sent.", score=0.25, state="done")
    sums = make_task(project, other, prompt="What is 3 + 4?", answer="It is seven.", score=0.75, environment="chat")
    Attempt.objects.create(task=sums, index=0, worker=other, outcome=1.0)
    Feedback.objects.create(project=project, task=lamp, source="human", author="user:bob", score=1)
    type(lamp).objects.filter(pk=lamp.pk).update(created_at=timezone.now() - timedelta(days=30))
    today = timezone.now().date()
    for query, wanted in {
        "worker=adder": [sums.pk],
        "worker=nobody": [],
        "state=done": [lamp.pk],
        "text=brass+lamp": [lamp.pk],
        "text=ohara": [],
        "text=o'hara": [lamp.pk],
        "text=SEVEN": [sums.pk],
        "text=3": [sums.pk],
        "min_score=0.5": [sums.pk],
        "max_score=0.5": [lamp.pk],
        "verified=true": [sums.pk],
        "verified=false": [lamp.pk],
        "reviewer=bob": [lamp.pk],
        "reviewer=user:bob": [lamp.pk],
        f"since={today}": [sums.pk],
        f"until={today - timedelta(days=2)}": [lamp.pk],
        "sort=score": [lamp.pk, sums.pk],
        "sort=-score": [sums.pk, lamp.pk],
        "": [sums.pk, lamp.pk],
        "sort=submitted": [lamp.pk, sums.pk],
    }.items():
        assert ask(client, "task-list", query)[:2] == (200, wanted), query


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("wroker=adder", "wroker"),
        ("state=gone", "state"),
        ("min_score=2", "min_score"),
        ("since=yesterday", "since"),
        ("sort=colour", "sort"),
        ("text=%00", "text"),
        ("text=!!!", "text"),
        ("text=" + "x" * 400, "text"),
        ("state=done&state=failed", "state"),
        ("after=7", "place"),
    ],
)
def test_a_filter_that_cannot_be_followed_is_named_and_nothing_is_shown(
    client: Client, project: Project, worker: Worker, query: str, named: str
) -> None:
    make_task(project, worker, state="done")
    status, rows, page = ask(client, "task-list", query)
    assert (status, rows) == (400, [])
    assert named in page.split('role="alert"')[1].split("</div>")[0]


def test_an_empty_field_leaves_no_trace_in_the_address(client: Client, project: Project) -> None:
    path = reverse("console:task-list", args=("shop",))
    answer = client.get(f"{path}?text=&state=done&worker=")
    assert (answer.status_code, answer.headers["Location"]) == (302, f"{path}?state=done")


@pytest.mark.parametrize("sort", ["", "submitted", "-submitted", "score", "-score"])
def test_pages_go_on_behind_the_last_row_in_every_order(
    client: Client, project: Project, worker: Worker, sort: str
) -> None:
    scores = [None, 0.5, 0.5, 1.0, None, 0.0] * 10
    tasks = [make_task(project, worker, score=score) for score in scores]
    seen: list[int] = []
    place = ""
    while True:
        query = {name: value for name, value in (("sort", sort), ("after", place)) if value}
        answer = client.get(reverse("console:task-list", args=("shop",)), query)
        listing = answer.context["listing"]
        seen += [row.pk for row in listing.rows]
        make_task(project, worker, score=0.7)  # meanwhile
        place = listing.next_place
        if not place:
            break
    known = {task.pk: task.score for task in tasks}
    seen = [pk for pk in seen if pk in known]
    assert sorted(seen) == sorted(known)
    if "score" in sort:
        found = [score for pk in seen if (score := known[pk]) is not None]
        assert found == sorted(found, reverse=sort.startswith("-"))
        assert [known[pk] for pk in seen][len(found) :] == [None] * 20
    else:
        assert seen == sorted(known, reverse=sort != "submitted")


def test_words_and_scores_stand_on_an_index(project: Project, worker: Worker, alice: User) -> None:
    first = make_task(project, worker)
    made = {"project": project, "worker": worker, "submitted_by": first.submitted_by, "environment": "chat"}
    Task.objects.bulk_create(
        Task(**made, prompt=f"word{n} of many", state="done", score=n / 3000, group_size=1) for n in range(3000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE tasks_task")
    rows = Task.objects.filter(project=project)
    assert "task_words" in TaskFilters.bind({"text": "word77"}, rows, alice).qs.order_by("-pk")[:26].explain()
    assert "task_by_score" in rows.filter(score__isnull=False).order_by("-score", "-pk")[:26].explain()


def test_a_text_of_any_size_and_making_can_be_kept_and_found(project: Project, worker: Worker, alice: User) -> None:
    hostile = """brass '" %s & | ! \\\\ <a href='x'> http://a.b/c?d=e ünïcödé 東京 """
    long = make_task(project, worker, prompt=hostile + "x" * 1_500 + " " + "ab cd " * 400_000, state="done")
    assert len(long.prompt) > MOST_INDEXED
    rows = Task.objects.filter(project=project)
    for text in ("BRASS", "ünïcödé", "東京", "href", "d=e", "a.b/c", "'; DROP TABLE", "x" * 300):
        found = TaskFilters.bind({"text": text}, rows, alice).qs
        assert list(found) == ([] if "DROP" in text else [long]), text


def test_what_takes_too_long_is_refused_in_words_and_the_time_is_as_before(project: Project) -> None:
    def now() -> str:
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            return str(cursor.fetchone()[0])

    before = now()
    with within(7):
        assert now() == "7s"
    assert now() == before
    with pytest.raises(TooBroadError, match="add a worker"), within(0.01), connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(30)")
    assert now() == before
    assert turn_page(Task.objects.all(), Order("score"), limit=5).rows == []


def test_an_export_takes_home_what_the_filter_leaves(client: Client, project: Project, worker: Worker) -> None:
    make_task(project, make_worker(project, name="adder"), prompt="What is 3 + 4?")
    make_task(project, worker, prompt="A lamp.")
    path = reverse("console:export", args=("shop", "tasks"))
    answer: Any = client.post(path, {"format": "csv", "plain": "on", "worker": "adder", "text": "3"})
    rows = b"".join(answer.streaming_content).decode().splitlines()
    assert len(rows) == 2
    assert "What is 3 + 4?" in rows[1]
    assert client.post(path, {"format": "csv", "plain": "on", "min_score": "9"}).status_code == 302


def test_saved_views_of_every_list_stand_on_the_dashboard(client: Client, project: Project, alice: User) -> None:
    save_view(project=project, by=alice, page="task-list", name="Low scores", query="max_score=0.3&sort=score")
    save_view(project=project, by=alice, page="dead-letters", name="Runs", query="kind=train", is_team=True)
    save_view(project=project, by=make_user("bob"), page="task-list", name="Bob's own", query="state=done")
    page = client.get(reverse("console:project", args=("shop",))).content.decode()
    assert 'href="/p/shop/tasks/?max_score=0.3&amp;sort=score"' in page
    assert f'href="{reverse("console:dead-letters", args=("shop",))}?kind=train"' in page
    assert "Bob" not in page.split("<main")[1]
