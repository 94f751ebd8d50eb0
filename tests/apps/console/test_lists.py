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
from apps.feedback.models import Feedback, Review, StepFeedback
from apps.finding.bounds import TooBroadError, within
from apps.finding.pages import Order, turn_page
from apps.finding.tasks import TaskFilters
from apps.outbox.models import Segment
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


def test_reviews_are_narrowed_and_sorted_by_their_address(client: Client, project: Project, worker: Worker) -> None:
    lamp = make_task(project, worker, prompt="Two brass lamps", state="in_review", environment="desk")
    sums = make_task(project, make_worker(project, name="adder"), prompt="3 + 4", state="in_review", environment="chat")
    old, new = (Review.objects.create(project=project, task=task, audience="human") for task in (lamp, sums))
    now, bob = timezone.now(), make_user("bob")
    Review.objects.filter(pk=old.pk).update(created_at=now - timedelta(days=30), priority=0.9, assigned_to=bob)
    Review.objects.filter(pk=new.pk).update(rank_at=now - timedelta(days=60), due_at=now + timedelta(days=1))
    for query, wanted in {
        "": [new.pk, old.pk],
        "sort=queue": [new.pk, old.pk],
        "sort=-queue": [old.pk, new.pk],
        "sort=opened": [old.pk, new.pk],
        "sort=-priority": [old.pk, new.pk],
        "sort=due": [new.pk, old.pk],
        "text=brass": [old.pk],
        "worker=adder": [new.pk],
        "environment=chat": [new.pk],
        "reviewer=bob": [old.pk],
        "assigned=nobody": [new.pk],
        "min_priority=0.5": [old.pk],
        f"since={now.date()}": [new.pk],
        f"until={now.date() - timedelta(days=9)}": [old.pk],
        "held=snoozed": [],
    }.items():
        assert ask(client, "review-list", query)[:2] == (200, wanted), query
    everything = client.get(reverse("console:review-list", args=("shop",)))
    assert everything.context["count"] == 2


def test_failed_work_is_narrowed_and_sorted_by_its_address(client: Client, project: Project, worker: Worker) -> None:
    now = timezone.now()

    def bury(kind: str, subject: int, error: str, message: str, days: int) -> int:
        errors = [{"type": "Older", "message": "a socket"}, {"type": error, "message": message}]
        return Segment.objects.create(
            kind=kind, subject_id=subject, project_id=project.pk, links=["x"], queue="workers", state="dead",
            errors=errors, finished_at=now - timedelta(days=days), attempts=days,
        ).pk  # fmt: skip

    other = make_worker(project, name="adder")
    first = bury("work", make_task(project, worker, state="failed").pk, "ProviderBusyError", "503 five times", 30)
    second = bury("learn", make_task(project, other, state="failed").pk, "ValueError", "no hint", 1)
    third = bury("train", 7, "ValueError", "the loss was not finite", 2)
    for query, wanted in {
        "": [third, second, first],
        "sort=tries": [second, third, first],
        "sort=-failed": [second, third, first],
        "kind=work": [first],
        "error=ValueError": [third, second],
        "error=Older": [],
        "text=HINT": [second],
        "text=socket": [],
        "worker=echo": [first],
        "worker=adder": [second],
        f"since={now.date() - timedelta(days=9)}": [third, second],
        f"until={now.date() - timedelta(days=9)}": [first],
        "kind=train&error=ValueError&text=finite": [third],
    }.items():
        assert ask(client, "dead-letters", query)[:2] == (200, wanted), query
    page = ask(client, "dead-letters", "text=hint&worker=adder")[2]
    assert "Replay the 1 shown" in page
    path = reverse("console:replay-all", args=("shop",))
    refused = client.post(path, {"text": "hint", "wroker": "adder"}, follow=True).content.decode()
    assert "wroker: There is no such filter" in refused
    client.post(path, {"text": "hint", "worker": "adder"})
    assert list(Segment.objects.filter(state="dead").order_by("pk").values_list("pk", flat=True)) == [first, third]


def test_my_feedback_is_narrowed_and_sorted_and_its_views_are_kept(
    client: Client, project: Project, worker: Worker, alice: User
) -> None:
    def judge(author: str, days: int, **said: Any) -> int:
        task = make_task(project, said.pop("worker", worker), state="done")
        one = Feedback.objects.create(project=project, task=task, source="human", author=author, **said)
        Feedback.objects.filter(pk=one.pk).update(created_at=timezone.now() - timedelta(days=days))
        return one.pk

    low = judge(alice.handle, 30, score=0.25, text="Too dear", worker=make_worker(project, name="adder"))
    high = judge(alice.handle, 0, score=1.0, hint_text="Name the rule")
    none = judge(alice.handle, 0, retracted_at=timezone.now())
    judge("user:bob", 0, score=1.0, text="Too dear by far")
    attempt = Attempt.objects.create(task=Feedback.objects.get(pk=high).task, index=0, worker=worker)
    StepFeedback.objects.create(feedback_id=high, attempt=attempt, comment="No surcharge here")
    today = timezone.now().date()
    for query, wanted in {
        "": [none, high, low],
        "sort=given": [low, high, none],
        "sort=score": [low, high, none],
        "sort=-score": [high, low, none],
        "text=dear": [low],
        "text=rule": [high],
        "text=surcharge": [high],
        "worker=adder": [low],
        "min_score=0.5": [high],
        "max_score=0.5": [low],
        "retracted=true": [none],
        "retracted=false": [high, low],
        f"since={today}": [none, high],
        f"until={today - timedelta(days=2)}": [low],
    }.items():
        assert ask(client, "my-feedback", query)[:2] == (200, wanted), query
    body = {"page": "my-feedback", "name": "Praise", "query": "min_score=0.9"}
    kept = client.post(reverse("console:view-keep", args=("shop",)), body, follow=True)
    assert kept.redirect_chain[0][0] == reverse("console:my-feedback", args=("shop",)) + "?min_score=0.9"
    assert f'href="{kept.redirect_chain[0][0]}" aria-current="true">Praise' in kept.content.decode()


@pytest.mark.parametrize("page", ["review-list", "my-feedback", "dead-letters", "bulk-new"])
@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("wroker=adder", "wroker"),
        ("min_score=2", ("min_score", "no such filter")),
        ("environment=moon", ("moon is not one of", "no such filter")),
        ("kind=moon", ("moon is not one of", "no such filter")),
        ("retracted=perhaps", ("perhaps is not one of", "no such filter")),
        ("since=yesterday", "wanted a day such as"),
        ("sort=colour", ("wanted one of", "no such filter")),
        ("text=%00", "text"),
        ("text=!!!", ("wanted words", "")),
        ("worker=a&worker=b", "found several"),
        ("after=7", ("the place at which", "")),
        ("before=7", "There is no such filter"),
    ],
)
def test_no_list_ignores_what_it_cannot_follow(
    client: Client, project: Project, worker: Worker, page: str, query: str, named: str | tuple[str, str]
) -> None:
    answer = client.get(f"{reverse(f'console:{page}', args=('shop',))}?{query}")
    if answer.status_code == 200:  # it has no such order or words to refuse
        assert isinstance(named, tuple)
        assert "" in named
        return
    told = answer.content.decode().split('role="alert"')[1].split("</div>")[0]
    assert any(words in told for words in ([named] if isinstance(named, str) else named)), told
    assert answer.context["listing"].rows == []


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
