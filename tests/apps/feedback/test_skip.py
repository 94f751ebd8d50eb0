"""Passing a review over: what becomes of it under each policy, in whatever order people pass."""

import pytest
from django.db.models.functions import Now
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.models import Member, Project, Role, User
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, NotAllowedError
from apps.feedback.claims import LATER, assign_review, claim, claim_review, set_due, snooze_review
from apps.feedback.drafts import save_draft
from apps.feedback.errors import NotYourReviewError, ReviewTakenError
from apps.feedback.models import Feedback, Review, ReviewDraft, ReviewSkip
from apps.feedback.skip import skip_review
from apps.feedback.submit import give_feedback
from apps.tasks.models import Task
from tests.apps.feedback.builders import make_open_review
from tests.factories import make_project, make_user


def next_for(project: Project, user: User) -> int | None:
    taken = claim_review(project, user)
    return None if taken is None else taken.pk


def test_later_goes_to_others_at_once_and_to_oneself_when_nothing_else_is_left(
    project: Project, alice: User, bob: User
) -> None:
    first, second = make_open_review(project), make_open_review(project)
    skip_review(review=claim(first, bob), by=bob, reason="after lunch", then="later")
    assert Review.objects.get(pk=first.pk).claimed_by is None
    assert next_for(project, bob) == second.pk
    assert next_for(project, bob) == first.pk
    Review.objects.update(claimed_by=None, lease_until=None)
    assert next_for(project, alice) == first.pk


def test_what_was_put_off_an_hour_ago_is_back_in_its_place(project: Project, bob: User) -> None:
    first, _ = make_open_review(project), make_open_review(project)
    skip_review(review=first, by=bob, reason="after lunch", then="later")
    ReviewSkip.objects.update(created_at=Now() - LATER)
    assert next_for(project, bob) == first.pk


def test_others_never_comes_back_to_oneself(project: Project, alice: User, bob: User) -> None:
    review = make_open_review(project)
    assign_review(review=review, to=bob, by=alice)
    skip_review(review=review, by=bob, reason="my own ticket", then="others")
    assert next_for(project, bob) is None
    assert next_for(project, alice) == review.pk


def test_an_expert_is_a_manager(project: Project, alice: User, bob: User) -> None:
    review = make_open_review(project)
    skip_review(review=review, by=bob, reason="a legal question", then="expert")
    assert next_for(project, bob) is None
    review.refresh_from_db()
    with pytest.raises(NotYourReviewError, match="waits for an expert"):
        claim(review, bob)
    with pytest.raises(NotYourReviewError, match="waits for an expert"):
        give_feedback(review=review, by=bob, score=1)
    assert next_for(project, alice) == review.pk


def test_each_pass_is_told_with_its_reason_and_an_unknown_one_is_refused(project: Project, bob: User) -> None:
    review = make_open_review(project)
    with pytest.raises(BadInputError, match="then: wanted one of nobody, later, others, expert, found 'me'"):
        skip_review(review=review, by=bob, reason="x", then="me")
    skip_review(review=review, by=bob, reason="not mine", then="others")
    entry = AuditEntry.objects.get(kind="review.passed_on")
    assert (entry.payload["then"], entry.payload["reason"]) == ("others", "not mine")
    assert ReviewSkip.objects.get().then == "others"


moves = st.lists(
    st.tuples(st.sampled_from(["alice", "bob", "carol"]), st.sampled_from(["nobody", "later", "others", "expert"])),
    max_size=6,
)


@pytest.mark.thorough
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves)
def test_whatever_order_people_pass_in_the_review_is_where_the_last_pass_put_it(
    db: None, moves: list[tuple[str, str]]
) -> None:
    """The model: who is left to ask, and whether it takes an expert; compared after each pass."""
    number = Project.objects.count()
    project = make_project(f"p{number}")
    Member.objects.create(project=project, user=make_user("carol"), role=Role.REVIEWER)
    review = make_open_review(project)
    given_up: set[str] = set()
    is_open, needs_expert = True, False
    for name, then in moves:
        user = make_user(name)
        if not is_open:
            with pytest.raises(Exception, match="skipped"):
                skip_review(review=review, by=user, reason="x", then=then)
            continue
        if needs_expert and name != "alice":
            with pytest.raises(NotYourReviewError):
                skip_review(review=review, by=user, reason="x", then=then)
            continue
        skip_review(review=review, by=user, reason="x", then=then)
        is_open = then != "nobody"
        needs_expert = needs_expert or then == "expert"
        given_up |= {name} if then == "others" else set()
        review.refresh_from_db()
        assert (review.state == Review.State.OPEN, review.needs_expert) == (is_open, needs_expert)
        review.task.refresh_from_db()
        assert review.task.state == (Task.State.IN_REVIEW if is_open else Task.State.LEARNING)
        may = {"alice"} if needs_expert else {"alice", "bob", "carol"}
        for other in ("alice", "bob", "carol"):
            taken = claim_review(project, make_user(other))
            assert (taken is not None) == (is_open and other in may - given_up), (other, then)
            Review.objects.filter(pk=review.pk).update(claimed_by=None, lease_until=None)


def test_assigning_is_a_managers_but_for_oneself(project: Project, alice: User, bob: User, charlie: User) -> None:
    review = claim(make_open_review(project), bob)
    with pytest.raises(NotAllowedError):
        assign_review(review=review, to=alice, by=bob)
    with pytest.raises(BadInputError, match="charlie does not review in shop"):
        assign_review(review=review, to=charlie, by=alice)
    assign_review(review=review, to=alice, by=alice)
    assert (review.assigned_to, review.claimed_by) == (alice, None)
    with pytest.raises(NotYourReviewError, match="assigned to alice"):
        claim(review, bob)
    assert next_for(project, bob) is None
    assert next_for(project, alice) == review.pk
    assign_review(review=review, to=None, by=alice)
    assert assign_review(review=review, to=bob, by=bob).assigned_to == bob


def test_what_is_assigned_to_oneself_comes_first(project: Project, alice: User, bob: User) -> None:
    make_open_review(project)
    mine = make_open_review(project)
    assign_review(review=mine, to=bob, by=alice)
    assert next_for(project, bob) == mine.pk


def test_a_snoozed_review_sleeps_for_all_until_it_is_woken(project: Project, alice: User, bob: User) -> None:
    review = make_open_review(project)
    tomorrow = review.created_at + LATER * 24
    snooze_review(review=claim(review, bob), until=tomorrow, by=bob)
    assert next_for(project, alice) is None
    with pytest.raises(BadInputError, match="within 30 days"):
        snooze_review(review=review, until=review.created_at + LATER * 24 * 31, by=bob)
    snooze_review(review=review, until=None, by=alice)
    assert next_for(project, alice) == review.pk
    with pytest.raises(ReviewTakenError):
        snooze_review(review=review, until=tomorrow, by=bob)


def test_when_it_is_due_is_a_managers_to_say(project: Project, alice: User, bob: User) -> None:
    review = make_open_review(project)
    with pytest.raises(NotAllowedError):
        set_due(review=review, due_at=None, by=bob)
    moment = review.created_at + LATER
    assert set_due(review=review, due_at=moment, by=alice).due_at == moment


def test_who_lost_the_lease_is_told_and_keeps_the_draft(project: Project, alice: User, bob: User) -> None:
    review = claim(make_open_review(project), bob)
    save_draft(review=review, by=bob, data={"text": "half a"}, version=0)
    Review.objects.update(lease_until=Now() - LATER)
    assert claim(review, alice).claimed_by == alice
    with pytest.raises(ReviewTakenError, match="user:alice has it") as caught:
        give_feedback(review=review, by=bob, score=1, text="half a sentence")
    assert (caught.value.status, caught.value.code) == (409, "review_taken")
    assert not Feedback.objects.exists()
    assert ReviewDraft.objects.get().data == {"text": "half a"}
