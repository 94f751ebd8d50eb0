"""One judgement for many reviews: what was confirmed, once each, through a crash, and back again."""

from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, IllegalMoveError, NotAllowedError
from apps.calibration.models import Comparison, Rater
from apps.feedback import appeals
from apps.feedback import bulk as bulk_judgements
from apps.feedback.claims import LATER, claim
from apps.feedback.create_reviews import open_reviews
from apps.feedback.errors import CountChangedError
from apps.feedback.finalizing import settle_feedback
from apps.feedback.hints import extract_hints
from apps.feedback.models import BulkJudgement, Feedback, Review
from apps.feedback.queue import QueueFilter
from apps.feedback.submit import give_task_feedback
from apps.outbox.models import Segment
from apps.pipeline import bulk as bulks
from apps.rollouts.models import Rollout
from apps.rollouts.services import build_rollouts, close_open_batch
from apps.tasks.models import Task
from tests.apps.feedback.builders import make_chat_task, make_open_review, save_scores
from tests.chaos.interleave import Side, until_waiting
from tests.factories import make_judged_task

WORDS = {"score": 1.0, "text": "Accepted: every scorer agrees."}
ALL = QueueFilter()


def start(project: Project, by: User, count: int, filters: QueueFilter = ALL, **words: Any) -> BulkJudgement:
    return bulks.start(project=project, by=by, filters=filters, judgement=words or WORDS, confirmed=count)


def run(bulk: BulkJudgement, *, limit: int = 2) -> BulkJudgement:
    while not bulks.judge_next(bulk.pk, limit=limit):
        pass
    bulk.refresh_from_db()
    return bulk


def take_back(bulk: BulkJudgement, by: User, *, limit: int = bulks.CHUNK) -> None:
    bulks.begin_undo(bulk=bulk, by=by)
    while not bulks.undo_next(bulk.pk, limit=limit):
        pass
    bulk.refresh_from_db()


def test_all_that_match_are_judged_once_and_learn_when_no_undo_can_come(project: Project, alice: User) -> None:
    for score in (0.95, 0.95, 0.95, 0.2):
        task = make_chat_task(project, score=score)
        save_scores(task, "prm", [score, score])
        open_reviews([task.pk])
    bulk = run(start(project, alice, 3, QueueFilter(min_score=0.9)))
    assert (bulk.state, bulk.done, bulk.total, bulk.report) == ("done", 3, 3, [])
    given = list(Feedback.objects.all())
    assert {(one.author, one.score, one.text, one.in_bulk_id) for one in given} == {
        ("user:alice", 1.0, WORDS["text"], bulk.pk)
    }
    assert len({one.task_id for one in given}) == 3
    assert Review.objects.filter(state="closed").count() == Task.objects.filter(state="learning").count() == 3
    assert Segment.objects.filter(kind="learn", run_after__gt=Now()).count() == 3
    kinds = list(AuditEntry.objects.values_list("kind", flat=True))
    assert [kinds.count(kind) for kind in ("review.closed", "feedback.given", "task.learning", "bulk.done")] == [
        3,
        3,
        3,
        1,
    ]
    assert Segment.objects.filter(kind="bulk", links=["pipeline.judge_bulk"]).count() == 1


def test_a_killed_process_goes_on_where_the_last_chunk_ended(project: Project, alice: User) -> None:
    for _ in range(5):
        make_open_review(project)
    bulk = start(project, alice, 5)
    assert not bulks.judge_next(bulk.pk, limit=2)  # and here it dies
    late = make_open_review(project)
    assert Feedback.objects.count() == 2
    bulk = run(bulk)
    assert (bulk.done, Feedback.objects.count()) == (5, 5)
    assert Feedback.objects.values("review").distinct().count() == 5
    late.refresh_from_db()
    assert late.state == Review.State.OPEN  # opened after it was confirmed


def test_another_number_than_was_confirmed_stops_it(project: Project, alice: User, bob: User) -> None:
    make_open_review(project)
    with pytest.raises(CountChangedError, match="wanted the 2 reviews that were confirmed, found 1 now") as caught:
        start(project, alice, 2)
    assert (caught.value.found, caught.value.status) == (1, 409)
    with pytest.raises(NotAllowedError):
        start(project, bob, 1)
    for words, message in (
        ({"score": 2}, "score: wanted a score from 0 to 1"),
        ({"text": ""}, "found none"),
        ({"none_good": True}, "words: wanted score, text, found none_good"),
    ):
        with pytest.raises(BadInputError, match=message):
            start(project, alice, 1, **words)
    assert not BulkJudgement.objects.exists()


def test_what_is_anothers_is_passed_over_and_reported(project: Project, alice: User, bob: User) -> None:
    free, held, assigned, second, spoken = (make_open_review(project) for _ in range(5))
    claim(held, bob)
    Review.objects.filter(pk=assigned.pk).update(assigned_to=bob)
    Review.objects.filter(pk=second.pk).update(purpose="second")
    give_task_feedback(task=spoken.task, by=alice, score=0)
    bulk = run(start(project, alice, 5))
    assert (bulk.done, bulk.total) == (1, 5)
    assert {fault["review"]: fault["reason"] for fault in bulk.report} == {
        held.pk: "bob has it open",
        assigned.pk: "it is assigned to bob",
        second.pk: "it asks for a person's own judgement",
        spoken.pk: "alice has spoken on its task already",
    }
    free.refresh_from_db()
    assert free.state == Review.State.CLOSED
    Review.objects.filter(pk=held.pk).update(lease_until=Now() - LATER)
    assert run(start(project, alice, 4)).done == 1  # the lease is over: it is nobody's


def test_where_the_policy_wants_a_second_opinion_that_is_asked_for(project: Project, alice: User) -> None:
    project.review_policy = {"who": "human", "double_review_rate": 1.0}
    project.save()
    make_open_review(project)
    run(start(project, alice, 1))
    assert Task.objects.get().state == Task.State.IN_REVIEW
    assert Review.objects.get(state="open").purpose == Review.Purpose.SECOND


def test_a_cancelled_one_stops_and_keeps_what_is_done(project: Project, alice: User) -> None:
    for _ in range(4):
        make_open_review(project)
    bulk = start(project, alice, 4)
    bulks.judge_next(bulk.pk, limit=2)
    bulk_judgements.cancel_bulk(bulk=bulk, by=alice)
    assert run(bulk).done == 2
    assert Review.objects.filter(state="open").count() == 2
    with pytest.raises(IllegalMoveError):
        bulk_judgements.cancel_bulk(bulk=bulk, by=alice)


def test_undone_at_once_everything_is_as_before(project: Project, alice: User, bob: User) -> None:
    for _ in range(5):
        make_open_review(project)
    bulk = run(start(project, alice, 5))
    with pytest.raises(NotAllowedError):
        bulks.begin_undo(bulk=bulk, by=bob)
    take_back(bulk, alice, limit=2)
    assert (bulk.state, bulk.undone, bulk.report) == ("undone", 5, [])
    assert Review.objects.filter(state="open", claimed_by__isnull=True).count() == 5
    assert set(Task.objects.values_list("state", flat=True)) == {Task.State.IN_REVIEW}
    assert not Feedback.objects.standing().exists()
    assert not Segment.objects.filter(kind="learn", state="open").exists()
    assert run(start(project, alice, 5)).done == 5  # the same reviews, judged again


def test_an_appeal_against_one_of_them_does_not_keep_a_bulk_judgement_from_being_undone(
    project: Project, alice: User, bob: User
) -> None:
    reviews = [make_open_review(project) for _ in range(3)]
    bulk = run(start(project, alice, 3, score=0.0))
    disputed = Feedback.objects.get(review=reviews[1])
    appeal = appeals.open_appeal(feedback=disputed, by=bob, reason="it was right")
    take_back(bulk, alice)
    assert (bulk.state, bulk.undone, bulk.report) == ("undone", 3, [])
    assert not Feedback.objects.standing().exists()
    appeal.refresh_from_db()
    assert appeal.state == Review.State.EXPIRED
    assert set(Review.objects.filter(state="open").values_list("pk", "purpose")) == {
        (review.pk, "work") for review in reviews
    }
    assert set(Task.objects.values_list("state", flat=True)) == {Task.State.IN_REVIEW}


def test_undone_beside_an_appeal_against_another_word_it_is_retracted_and_that_goes_on(
    project: Project, alice: User, bob: User
) -> None:
    first, other = (make_open_review(project) for _ in range(2))
    bulk = run(start(project, alice, 2, score=0.0))
    words = give_task_feedback(task=other.task, by=bob, score=1.0)
    appeal = appeals.open_appeal(feedback=words, by=alice, reason="it was wrong")
    take_back(bulk, alice)
    assert (bulk.state, bulk.undone, bulk.report) == ("undone", 2, [])
    assert list(Feedback.objects.standing()) == [words]
    assert set(Review.objects.filter(state="open").values_list("pk", flat=True)) == {first.pk, appeal.pk}
    other.task.refresh_from_db()
    assert other.task.state == Task.State.LEARNING
    assert Segment.objects.get(kind="learn", state="open").subject_id == other.task_id


@pytest.mark.django_db(transaction=True)
def test_an_appeal_that_opens_while_a_bulk_judgement_is_undone_keeps_its_task_from_being_asked_twice(
    project: Project, alice: User, bob: User
) -> None:
    first, other = (make_open_review(project) for _ in range(2))
    bulk = run(start(project, alice, 2, score=0.0))
    words = give_task_feedback(task=other.task, by=bob, score=1.0)
    bulks.begin_undo(bulk=bulk, by=alice)
    with transaction.atomic():
        appeal = appeals.open_appeal(feedback=words, by=alice, reason="it was wrong")
        undoing = Side(lambda: bulks.undo_all(bulk.pk))
        until_waiting(1)
    undoing.end()
    bulk.refresh_from_db()
    assert (bulk.state, bulk.undone, bulk.report) == ("undone", 2, [])
    assert list(Feedback.objects.standing()) == [words]
    assert set(Review.objects.filter(state="open").values_list("pk", flat=True)) == {first.pk, appeal.pk}
    assert Segment.objects.get(kind="learn", state="open").subject_id == other.task_id


def test_undone_late_what_no_run_has_is_taken_back_and_the_rest_is_told(project: Project, alice: User) -> None:
    reviews = []
    for _ in range(2):
        task = make_judged_task(project, state=Task.State.IN_REVIEW)
        reviews.append(Review.objects.create(project=project, task=task, audience="human"))
    bulk = run(start(project, alice, 2, score=0.25))
    Segment.objects.filter(kind="learn").update(state="done")  # both were learnt from
    for review, closes in zip(reviews, (True, False), strict=True):
        extract_hints([review.task_id])
        build_rollouts([review.task_id], by="test")
        if closes:
            close_open_batch(review.task.worker, by="test")
    take_back(bulk, alice)
    assert (bulk.state, bulk.undone) == ("undone", 1)
    assert bulk.report == [{"review": reviews[0].pk, "reason": "batch 1 of echo has it: what learnt from it stays"}]
    rewards = dict(Rollout.objects.filter(attempt__index=1).values_list("task", "reward"))
    assert rewards == {reviews[0].task_id: 0.75, reviews[1].task_id: 1.0}


def test_what_was_undone_says_nothing_of_raters_any_more(project: Project, alice: User, bob: User) -> None:
    """Neither is alice held against what was verified, nor anybody against her."""
    counts = []
    for size in (2, 9):
        for _ in range(size):
            task = make_open_review(project, ("only",)).task
            task.attempts.update(outcome=1.0)
            save_scores(task, "prm", [0.5])
        count = Review.objects.filter(state=Review.State.OPEN).count()
        bulk = run(start(project, alice, count), limit=50)
        Feedback.objects.update(undo_until=Now())
        settle_feedback()
        give_task_feedback(task=task, by=bob, score=0)
        found = Comparison.objects.all()
        assert found.filter(rater__handle="user:alice", source="verified").count() == count
        assert set(found.filter(against="user:alice").values_list("rater__handle", flat=True)) == {
            "user:bob",
            "scorer:prm",
        }
        bulks.begin_undo(bulk=bulk, by=alice)
        with CaptureQueriesContext(connection) as queries:
            bulks.undo_next(bulk.pk)
        counts.append(len(queries))
        assert set(found.values_list("rater__handle", "against")) == {("user:bob", ""), ("scorer:prm", "user:bob")}
        assert Rater.objects.get(handle="user:alice").audited == 0
    assert counts[0] == counts[1]


def test_a_chunk_takes_as_many_queries_for_many_as_for_few(project: Project, alice: User) -> None:
    counts = []
    for size in (2, 12):
        for _ in range(size):
            make_open_review(project)
        bulk = start(project, alice, size)
        with CaptureQueriesContext(connection) as queries:
            bulks.judge_next(bulk.pk, limit=50)
        counts.append(len(queries))
        run(bulk)
    assert counts[0] == counts[1] <= 30
