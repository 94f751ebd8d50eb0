"""The queue: narrowed by its address, in pages that inserts do not move, counted up to a limit."""

from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.models import Project, User
from apps.base.errors import BadInputError, NotFoundError
from apps.feedback.models import Review
from apps.feedback.queue import CHOICES, QueueFilter
from apps.feedback.services import claim, claim_review, count_queue, find_queue, open_reviews
from tests.apps.feedback.builders import make_chat_task, make_open_review, save_scores
from tests.factories import make_project, make_worker


def found(project: Project, by: User, **filters: object) -> list[int]:
    return [review.pk for review in find_queue(project, by, QueueFilter(**filters)).reviews]  # type: ignore[arg-type]


filters = st.builds(
    QueueFilter,
    **{name: st.sampled_from(("", *words)) for name, words in CHOICES.items()},
    worker=st.sampled_from(("", "echo")),
    min_priority=st.none() | st.sampled_from((0.0, 0.25, 1.0)),
    min_score=st.none() | st.sampled_from((0.0, 0.9)),
)


@given(filters)
def test_an_address_says_the_same_as_the_filter_it_was_written_from(narrowed: QueueFilter) -> None:
    assert QueueFilter.from_query(narrowed.to_query()) == narrowed


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"environment": "moon"}, "environment"),
        ({"purpose": "gold"}, "purpose"),
        ({"min_priority": "nan"}, "min_priority"),
        ({"min_score": "2"}, "min_score"),
        ({"worker": "a\x00b"}, "worker"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_by_name(query: Mapping[str, str], field: str) -> None:
    with pytest.raises(BadInputError) as caught:
        QueueFilter.from_query(query)
    assert set(caught.value.errors) == {field}


def test_pages_follow_on_each_other_whatever_comes_between(project: Project, bob: User) -> None:
    first = make_open_review(project)
    moment = first.rank_at
    reviews = [first, *(make_open_review(project) for _ in range(6))]
    Review.objects.update(rank_at=moment)  # all at one moment: only the id tells them apart
    page = find_queue(project, bob, limit=3)
    seen = [review.pk for review in page.reviews]
    late = make_open_review(project)
    Review.objects.filter(pk=late.pk).update(rank_at=moment - timedelta(hours=1))
    while page.next_after:
        page = find_queue(project, bob, after=page.next_after, limit=3)
        seen += [review.pk for review in page.reviews]
    assert seen == [review.pk for review in reviews]
    assert found(project, bob)[0] == late.pk
    with pytest.raises(BadInputError, match="the place at which another page ended"):
        find_queue(project, bob, after="yesterday~x")


def test_the_queue_can_be_narrowed_every_way(project: Project, alice: User, bob: User) -> None:
    plain, mine, held, late, snoozed, second, gold = (make_open_review(project) for _ in range(7))
    rows = Review.objects
    rows.filter(pk=mine.pk).update(assigned_to=bob, priority=0.9)
    rows.filter(pk=held.pk).update(claimed_by=alice, lease_until=Now() + timedelta(minutes=1))
    rows.filter(pk=late.pk).update(due_at=Now() - timedelta(seconds=1))
    rows.filter(pk=snoozed.pk).update(snoozed_until=Now() + timedelta(hours=1))
    rows.filter(pk=second.pk).update(purpose="second", due_at=Now() + timedelta(minutes=5))
    rows.filter(pk=gold.pk).update(purpose="gold")
    other = make_open_review(make_project("other"))
    rows.filter(pk=plain.pk).update(lowest_score=0.9)
    rows.filter(pk=mine.pk).update(lowest_score=0.2)
    everything = [row.pk for row in (plain, mine, held, late, second, gold)]
    assert found(project, bob) == everything
    assert found(project, bob, assigned="me") == [mine.pk]
    assert found(project, alice, assigned="me") == []
    assert found(project, alice, assigned="anyone") == [mine.pk]
    assert found(project, bob, held="others") == [held.pk]
    assert found(project, alice, held="me") == [held.pk]
    assert held.pk not in found(project, bob, held="free")
    assert found(project, bob, held="snoozed") == [snoozed.pk]
    assert found(project, bob, due="late") == [late.pk]
    assert found(project, bob, due="soon") == [second.pk]
    assert found(project, bob, purpose="second") == [second.pk]
    assert gold.pk in found(project, bob, purpose="work")
    assert found(project, bob, min_priority=0.5) == [mine.pk]
    assert found(project, bob, min_score=0.9) == [plain.pk]
    assert found(project, bob, environment="desk") == []
    assert found(project, bob, worker="nobody") == []
    assert found(project, bob, worker="echo") == everything
    assert other.pk not in found(project, bob)


def test_the_list_takes_as_many_queries_for_many_as_for_one(project: Project, bob: User) -> None:
    counts = []
    for _ in range(2):
        make_open_review(project)
        with CaptureQueriesContext(connection) as queries:
            for review in find_queue(project, bob).reviews:
                assert review.task.worker.name == "echo"
                assert review.claimed_by is None
        counts.append(len(queries))
    assert counts == [2, 2]


def test_counting_stops_at_its_limit(project: Project, bob: User) -> None:
    for _ in range(4):
        make_open_review(project)
    assert str(count_queue(project, bob)) == "4"
    assert str(count_queue(project, bob, cap=3)) == "3+"


def test_the_more_there_is_to_learn_the_sooner_it_is_handed_out(project: Project, bob: User) -> None:
    dull, disputed = make_chat_task(project, score=1.0), make_chat_task(project, score=0.5)
    save_scores(dull, "prm", [1.0, 1.0])
    save_scores(disputed, "prm", [1.0, 0.0])
    for task in (dull, disputed):
        open_reviews([task.pk])
    ranks = {review.task_id: review for review in Review.objects.all()}
    assert (ranks[dull.pk].priority, ranks[disputed.pk].priority) == (0.0, 1.0)
    assert (ranks[dull.pk].lowest_score, ranks[disputed.pk].lowest_score) == (1.0, 0.0)
    ahead = ranks[dull.pk].rank_at - ranks[disputed.pk].rank_at
    assert timedelta(hours=23, minutes=59) < ahead < timedelta(hours=24, seconds=1)
    first = claim_review(project, bob)
    assert first is not None
    assert first.task_id == disputed.pk


def test_a_claim_takes_only_what_matches(project: Project, bob: User) -> None:
    make_open_review(project)
    make_worker(project, "other")
    theirs = make_open_review(project)
    theirs.task.worker = make_worker(project, "third")
    theirs.task.save()
    taken = claim_review(project, bob, QueueFilter(worker="third"))
    assert taken is not None
    assert taken.pk == theirs.pk
    assert claim_review(project, bob, QueueFilter(worker="other")) is None
    assert claim(taken, bob).claimed_by == bob


def test_charlie_learns_nothing_of_the_queue(project: Project, charlie: User) -> None:
    for read in (find_queue, count_queue):
        with pytest.raises(NotFoundError, match="no project shop"):
            read(project, charlie)


def test_reviews_that_waited_before_their_lowest_score_was_kept_get_it(project: Project, bob: User) -> None:
    scored, unscored = make_open_review(project), make_open_review(project)
    save_scores(scored.task, "prm", [0.9, 0.4])
    import_module("apps.feedback.migrations.0004_lowest_score").write_lowest_scores(apps, None)
    assert dict(Review.objects.values_list("pk", "lowest_score")) == {scored.pk: 0.4, unscored.pk: None}
    assert found(project, bob, min_score=0.4) == [scored.pk]
