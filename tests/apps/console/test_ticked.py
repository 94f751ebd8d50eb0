"""Ticked rows: what would happen is said first, then it is done to each, by who may, with a report."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.base.errors import ConflictError, NotAllowedError
from apps.feedback.models import BulkJudgement, Feedback, Review
from apps.outbox.models import Segment
from apps.pipeline import bulk as bulks
from apps.tasks.models import Task
from apps.workers.models import Worker
from tests.factories import make_project, make_task, make_user, make_worker

pytestmark = pytest.mark.django_db


def send(who: User, query: dict[str, Any], body: dict[str, Any] | None = None) -> Any:
    client = Client()
    client.force_login(who)
    path = reverse("console:bulk-act", args=("shop",))
    if body is None:
        return client.get(path, query)
    return client.post(path, body, query_params=query)


def do(who: User, query: dict[str, Any], body: dict[str, Any] | None = None) -> BulkJudgement:
    """Ask for it, confirm it, and let the job run."""
    assert send(who, query).status_code == 200
    answer = send(who, query, body or {"typed": ""})
    assert answer.status_code == 302, answer.content.decode()
    bulk = BulkJudgement.objects.latest("pk")
    assert answer.headers["Location"] == reverse("console:bulk", args=("shop", bulk.pk))
    assert Segment.objects.filter(kind="bulk", subject_id=bulk.pk, state="open").exists()
    bulks.do_all(bulk.pk)
    bulk.refresh_from_db()
    assert bulk.state == BulkJudgement.State.DONE
    return bulk


def waiting(project: Project, worker: Worker, count: int = 3) -> list[Review]:
    tasks = [make_task(project, worker, state="in_review", prompt=f"number {n}") for n in range(count)]
    return [Review.objects.create(project=project, task=task, audience="human") for task in tasks]


def dead(project: Project, worker: Worker, count: int = 3) -> list[Segment]:
    return [
        Segment.objects.create(
            kind="work", subject_id=make_task(project, worker, state="failed").pk, project_id=project.pk,
            links=["tasks.work"], queue="agents", state="dead", errors=[{"type": "Away", "message": "no"}],
        )
        for _ in range(count)
    ]  # fmt: skip


def test_ticked_tasks_are_cancelled_and_what_has_ended_is_left(
    project: Project, worker: Worker, alice: User, bob: User
) -> None:
    first, second, third = (make_task(project, worker) for _ in range(3))
    done = make_task(project, worker, state="done")
    query = {"of": "tasks", "action": "cancel", "id": [first.pk, second.pk, done.pk]}
    page = send(alice, query).content.decode()
    assert "3 chosen, of which it can be done to 2 now" in page
    assert "cannot be taken back" in page
    assert Task.objects.filter(state="cancelled").count() == 0
    bulk = do(alice, query)
    assert (bulk.done, bulk.total, bulk.report) == (2, 2, [])
    assert set(Task.objects.filter(state="cancelled")) == {first, second}
    assert send(bob, query).status_code == 403
    assert send(bob, query, {}).status_code == 403
    third.refresh_from_db()
    assert third.state == "queued"


def test_one_that_cannot_be_done_holds_up_no_other_of_its_chunk(project: Project, worker: Worker, alice: User) -> None:
    reviews = waiting(project, worker, 7)
    tasks = [review.task for review in reviews]
    ended = tasks[1]
    Task.objects.filter(pk=ended.pk).update(state="done")
    working = make_task(project, worker, state="working", group_size=2)
    chosen = [*(task.pk for task in tasks), working.pk]
    bulk = bulks.start_action(project=project, by=alice, action="cancel", chosen=chosen, details={})
    while not bulks.act_next(bulk.pk, limit=3):
        pass
    bulk.refresh_from_db()
    assert (bulk.state, bulk.done, [fault["task"] for fault in bulk.report]) == ("done", 7, [ended.pk])
    assert "found done" in bulk.report[0]["reason"]
    assert Review.objects.filter(state="expired").count() == 6
    assert working.attempts.filter(state="cancelled").count() == 2
    entries = list(AuditEntry.objects.filter(kind="task.cancelled").values_list("subject_id", flat=True))
    assert (len(entries), set(entries)) == (7, {pk for pk in chosen if pk != ended.pk})
    told = AuditEntry.objects.filter(kind="review.expired").values_list("payload__task", flat=True)
    assert sorted(told) == sorted(task.pk for task in tasks if task != ended)


def test_a_chunk_of_cancelled_tasks_takes_as_many_queries_for_many_as_for_few(
    project: Project, worker: Worker, alice: User
) -> None:
    counts = []
    for size in (3, 30):
        chosen = [review.task_id for review in waiting(project, worker, size)]
        bulk = bulks.start_action(project=project, by=alice, action="cancel", chosen=chosen, details={})
        with CaptureQueriesContext(connection) as queries:
            bulks.act_next(bulk.pk)
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 31


def test_all_that_match_the_filter_are_meant(project: Project, worker: Worker, alice: User) -> None:
    other = make_worker(project, name="adder")
    meant = [make_task(project, other) for _ in range(120)]
    make_task(project, worker)
    query = {"of": "tasks", "action": "cancel", "all": "1", "worker": "adder"}
    answer = send(alice, query, {"typed": "119"})
    assert answer.status_code == 400
    assert "Type 120 to confirm" in answer.content.decode()
    assert do(alice, query, {"typed": "120"}).done == len(meant)
    assert Task.objects.exclude(state="cancelled").count() == 1
    wrong = send(alice, query | {"wroker": "x"})
    assert wrong.status_code == 302, "back to the list, with words"
    assert not BulkJudgement.objects.filter(total=0).exists()


def test_reviews_of_ticked_tasks_and_ticked_reviews_are_assigned_closed_and_judged(
    project: Project, worker: Worker, alice: User, bob: User
) -> None:
    one, two, three, four = waiting(project, worker, 4)
    do(alice, {"of": "tasks", "action": "assign", "id": [one.task_id]}, {"to": "bob"})
    do(alice, {"of": "reviews", "action": "assign", "id": [two.pk]}, {"to": "bob"})
    assert set(Review.objects.filter(assigned_to=bob)) == {one, two}
    assert send(alice, {"of": "reviews", "action": "close", "id": [one.pk]}, {}).status_code == 400, "wants a reason"
    do(alice, {"of": "reviews", "action": "close", "id": [two.pk, four.pk]}, {"reason": "not needed"})
    four.refresh_from_db()
    assert (four.state, four.task.state) == ("skipped", "learning")
    report = BulkJudgement.objects.latest("pk").report
    assert [line["review"] for line in report] == [two.pk], "another's is not hers to close"
    assert Segment.objects.filter(kind="learn", subject_id=four.task_id, state="open").exists()
    bulk = do(alice, {"of": "reviews", "action": "judge", "id": [three.pk]}, {"score": "0.5", "text": "Fine."})
    assert [(one.task_id, one.score, one.text) for one in Feedback.objects.all()] == [(three.task_id, 0.5, "Fine.")]
    more = waiting(project, worker, 2)
    do(alice, {"of": "reviews", "action": "assign", "all": "1", "text": "number 1"}, {"to": "bob"})
    assert set(Review.objects.filter(assigned_to=bob, pk__in=[row.pk for row in more])) == {more[1]}
    assert send(alice, {"of": "reviews", "action": "assign", "all": "1", "wroker": "x"}).status_code == 302
    bulks.begin_undo(bulk=bulk, by=alice)
    bulks.undo_all(bulk.pk)
    three.refresh_from_db()
    assert three.state == "open"


def test_failed_work_is_replayed_or_put_away(project: Project, worker: Worker, alice: User) -> None:
    one, two, three = dead(project, worker)
    Segment.objects.create(kind="work", subject_id=two.subject_id, project_id=project.pk, links=["tasks.work"],
                           queue="agents", state="open")  # fmt: skip
    bulk = do(alice, {"of": "failed", "action": "replay", "id": [one.pk, two.pk]})
    one.refresh_from_db()
    assert (one.state, bulk.done) == ("open", 1)
    assert bulk.report == [{"segment": two.pk, "reason": f"work of {two.subject_id} is at work already"}]
    do(alice, {"of": "failed", "action": "put_away", "all": "1", "kind": "work", "error": "Away", "worker": "echo"})
    assert set(Segment.objects.filter(state="cancelled")) == {two, three}
    with pytest.raises(ConflictError, match="only judgements"):
        bulks.begin_undo(bulk=bulk, by=alice)


def test_rows_of_other_projects_are_nobodys_to_choose(project: Project, worker: Worker, alice: User) -> None:
    other = make_project("elsewhere")
    foreign = make_task(other, make_worker(other))
    letters = dead(other, make_worker(other, name="second"))
    for query in (
        {"of": "tasks", "action": "cancel", "id": [foreign.pk]},
        {"of": "failed", "action": "replay", "id": [letters[0].pk]},
        {"of": "tasks", "action": "cancel"},
        {"of": "tasks", "action": "cancel", "id": ["x"]},
    ):
        assert send(alice, query, {}).status_code == 302, query
    for query in ({"of": "tasks", "action": "burn"}, {"of": "people", "action": "cancel"}, {}):
        assert send(alice, query, {}).status_code == 302, query
    assert BulkJudgement.objects.count() == 0
    bulk = bulks.start_action(project=project, by=alice, action="cancel", chosen=[foreign.pk], details={})
    bulks.do_all(bulk.pk)
    foreign.refresh_from_db()
    bulk.refresh_from_db()
    assert (foreign.state, bulk.done) == ("queued", 0)


def test_who_manages_no_more_does_nothing_more(project: Project, worker: Worker, alice: User) -> None:
    task = make_task(project, worker)
    bulk = bulks.start_action(project=project, by=alice, action="cancel", chosen=[task.pk], details={})
    project.members.filter(user=alice).update(role="reviewer")
    bulks.do_all(bulk.pk)
    task.refresh_from_db()
    bulk.refresh_from_db()
    assert (task.state, len(bulk.report)) == ("queued", 1)
    with pytest.raises(NotAllowedError):
        bulks.start_action(project=project, by=make_user("bob"), action="cancel", chosen=[task.pk], details={})


def test_lists_offer_ticks_to_who_may_act(project: Project, worker: Worker, alice: User, bob: User) -> None:
    waiting(project, worker)
    dead(project, worker)
    for who, may in ((alice, True), (bob, False)):
        client = Client()
        client.force_login(who)
        for name in ("task-list", "review-list", "dead-letters"):
            page = client.get(reverse(f"console:{name}", args=("shop",))).content.decode()
            assert ('form="ticks"' in page) is may, (name, who)
