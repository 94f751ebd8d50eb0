"""One review is one person's at a time."""

import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now

from apps.accounts.models import Member, Project, Role, User
from apps.audit.models import AuditEntry
from apps.base.errors import NotFoundError
from apps.feedback.claims import claim, claim_review, release_review, renew_claim
from apps.feedback.errors import NotYourReviewError, ReviewTakenError
from apps.feedback.models import Review
from apps.feedback.submit import give_task_feedback
from apps.tasks.models import Task
from tests.apps.feedback.builders import make_open_review
from tests.factories import make_project, make_task, make_user

PEOPLE, REVIEWS = 16, 300
Take = Callable[[Project, User], int | None]


def take_atomically(project: Project, user: User) -> int | None:
    review = claim_review(project, user)
    return None if review is None else review.pk


def find_then_update(project: Project, user: User) -> int | None:
    """What must not be done: two people find the same row before either has taken it."""
    found = Review.objects.filter(project=project, state="open", claimed_by=None).order_by("id").first()
    if found is None:
        return None
    Review.objects.filter(pk=found.pk).update(claimed_by=user)
    return found.pk


def race(take: Take) -> Counter[int]:
    """Sixteen people take until nothing is left: review id -> how many were given it."""
    project = make_project()
    people = [make_user(f"reviewer{number}") for number in range(PEOPLE)]
    Member.objects.bulk_create(Member(project=project, user=user, role=Role.REVIEWER) for user in people)
    first = make_task(project, state=Task.State.IN_REVIEW)
    tasks = [
        Task(
            project=project,
            worker=first.worker,
            submitted_by=first.submitted_by,
            environment="chat",
            prompt="x",
            group_size=1,
            state=Task.State.IN_REVIEW,
        )
        for _ in range(REVIEWS)
    ]
    Review.objects.bulk_create(
        Review(project=project, task=task, audience="human") for task in Task.objects.bulk_create(tasks)
    )
    taken: Counter[int] = Counter()
    lock, start = threading.Lock(), threading.Barrier(PEOPLE)

    def work(user: User) -> None:
        try:
            connection.ensure_connection()
            start.wait(timeout=120)
            while (review_id := take(project, user)) is not None:
                with lock:
                    taken[review_id] += 1
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(user,)) for user in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return taken


@pytest.mark.thorough
@pytest.mark.django_db(transaction=True)
def test_sixteen_people_take_three_hundred_reviews_and_no_two_the_same() -> None:
    taken = race(take_atomically)
    assert len(taken) == REVIEWS
    assert set(taken.values()) == {1}


@pytest.mark.thorough
@pytest.mark.django_db(transaction=True)
def test_the_race_is_a_race_for_finding_and_then_updating_gives_reviews_to_two() -> None:
    taken = race(find_then_update)
    assert sum(count > 1 for count in taken.values()) > 0


def test_a_review_one_has_is_not_given_to_another_until_its_lease_ends(
    project: Project, alice: User, bob: User
) -> None:
    review = make_open_review(project)
    taken = claim_review(project, bob)
    assert taken is not None
    assert (taken.pk, taken.claimed_by) == (review.pk, bob)
    assert claim_review(project, alice) is None
    with pytest.raises(ReviewTakenError, match="user:bob has it"):
        claim(review, alice)
    Review.objects.update(lease_until=Now() - timedelta(seconds=1))
    taken_again = claim_review(project, alice)
    assert taken_again is not None
    assert taken_again.claimed_by == alice


def test_a_released_review_can_be_taken_at_once(project: Project, alice: User, bob: User) -> None:
    review = claim(make_open_review(project), bob)
    with pytest.raises(ReviewTakenError, match="is not user:alice's"):
        release_review(review, alice)
    release_review(review, bob)
    assert claim(review, alice).claimed_by == alice
    kinds = list(AuditEntry.objects.order_by("id").values_list("kind", flat=True))
    assert kinds == ["review.claimed", "review.released", "review.claimed"]


def test_a_renewed_claim_lasts_longer_and_only_its_holder_renews_it(project: Project, alice: User, bob: User) -> None:
    review = claim(make_open_review(project), bob)
    Review.objects.update(lease_until=Now() + timedelta(seconds=5))
    with pytest.raises(ReviewTakenError):
        renew_claim(review, alice)
    renew_claim(review, bob)
    assert Review.objects.filter(pk=review.pk, lease_until__gt=Now() + timedelta(minutes=9)).exists()


def test_the_oldest_review_of_ones_own_project_comes_first(project: Project, bob: User) -> None:
    make_open_review(make_project("other"))
    reviews = [make_open_review(project), make_open_review(project)]
    assert [taken.pk for _ in reviews if (taken := claim_review(project, bob))] == [review.pk for review in reviews]
    assert claim_review(project, bob) is None


def test_who_has_spoken_on_a_task_is_not_given_its_second_opinion(project: Project, alice: User, bob: User) -> None:
    review = make_open_review(project)
    give_task_feedback(task=review.task, by=bob, score=0.5)
    assert claim_review(project, bob) is None
    assert claim_review(project, alice) is not None


def test_an_agent_cannot_take_its_own_work(project: Project) -> None:
    claw = make_user("claw", is_agent=True, is_superuser=True)
    review = make_open_review(project, submitted_by=claw)
    assert claim_review(project, claw) is None
    with pytest.raises(NotYourReviewError, match="its own work"):
        claim(review, claw)


def test_charlie_learns_of_no_project_and_takes_nothing(project: Project, charlie: User) -> None:
    review = make_open_review(project)
    with pytest.raises(NotFoundError, match="no project shop"):
        claim_review(project, charlie)
    with pytest.raises(NotFoundError, match="no project shop"):
        claim(review, charlie)
