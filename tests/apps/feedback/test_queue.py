"""The queue: narrowed, counted up to a limit, handed out by the same filter."""

from datetime import UTC, timedelta
from importlib import import_module

import pytest
from django.apps import apps
from django.db.models.functions import Now
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.models import Project, User
from apps.base.errors import NotFoundError
from apps.feedback.claims import claim, claim_review
from apps.feedback.create_reviews import open_reviews
from apps.feedback.models import Review
from apps.feedback.queue import CHOICES, QueueFilter, count_queue, narrow
from apps.tasks.models import Task
from tests.apps.feedback.builders import make_chat_task, make_open_review, save_scores
from tests.factories import make_project, make_worker


def found(project: Project, by: User, **filters: object) -> list[int]:
    rows = narrow(project, by, QueueFilter(**filters))  # type: ignore[arg-type]
    return list(rows.order_by("rank_at", "pk").values_list("pk", flat=True))


filters = st.builds(
    QueueFilter,
    **{name: st.sampled_from(("", *words)) for name, words in CHOICES.items()},
    worker=st.sampled_from(("", "echo")),
    min_priority=st.none() | st.sampled_from((0.0, 0.25, 1.0)),
    min_score=st.none() | st.sampled_from((0.0, 0.9)),
    since=st.none() | st.datetimes(timezones=st.just(UTC)),
)


@given(filters)
def test_what_is_kept_of_a_filter_says_the_same(narrowed: QueueFilter) -> None:
    assert QueueFilter.from_kept(narrowed.to_query()) == narrowed


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
    rows.filter(pk=late.pk).update(created_at=Now() - timedelta(days=9))
    week_ago = timezone.now() - timedelta(days=7)
    assert found(project, bob, until=week_ago) == [late.pk]
    assert late.pk not in found(project, bob, since=week_ago)
    assert found(project, bob, reviewer="bob") == [mine.pk]
    assert found(project, bob, reviewer="user:alice") == [held.pk]
    Task.objects.filter(pk=second.task_id).update(prompt="A brass lamp", state="in_review")
    assert found(project, bob, text="lamps brass") == []
    assert found(project, bob, text="lamp brass") == [second.pk]
    assert other.pk not in found(project, bob)


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
    with pytest.raises(NotFoundError, match="no project shop"):
        count_queue(project, charlie)


def test_reviews_that_waited_before_their_lowest_score_was_kept_get_it(project: Project, bob: User) -> None:
    scored, unscored = make_open_review(project), make_open_review(project)
    save_scores(scored.task, "prm", [0.9, 0.4])
    import_module("apps.feedback.migrations.0004_lowest_score").write_lowest_scores(apps, None)
    assert dict(Review.objects.values_list("pk", "lowest_score")) == {scored.pk: 0.4, unscored.pk: None}
    assert found(project, bob, min_score=0.4) == [scored.pk]
