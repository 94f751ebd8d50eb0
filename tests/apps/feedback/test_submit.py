"""A person's judgement: checked whole, written whole, and what it does to the task."""

from typing import Any

import pytest

from apps.accounts.models import Member, Project, Role, User
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, IllegalMoveError, NotAllowedError, NotFoundError
from apps.feedback.claims import claim, claim_review
from apps.feedback.create_reviews import open_reviews
from apps.feedback.errors import ReviewTakenError
from apps.feedback.hints import extract_hints
from apps.feedback.judgement import StepRating
from apps.feedback.models import Feedback, Review, StepFeedback
from apps.feedback.skip import skip_review
from apps.feedback.submit import give_feedback, give_task_feedback
from apps.tasks.models import Attempt, Task
from tests.apps.feedback.builders import make_chat_task, make_desk_task, make_open_review, write_answer
from tests.factories import make_user


def test_bobs_judgement_is_stored_whole_and_lets_the_task_learn(project: Project, bob: User) -> None:
    review = make_open_review(project)
    feedback = give_feedback(
        review=review,
        by=bob,
        score=0.75,
        text="Say please.",
        steps=[
            StepRating(attempt_index=1, step_index=0, score=0.25, comment="rude"),
            StepRating(attempt_index=0, score=1),
        ],
        preferred_attempt=1,
        edited_answer="please",
    )
    attempts = list(review.task.attempts.all())
    stored = Feedback.objects.get(pk=feedback.pk)
    assert (stored.source, stored.author, stored.score, stored.trust) == ("human", "user:bob", 0.75, 1.0)
    assert (stored.preferred_attempt, stored.edited_answer, stored.review) == (attempts[1], "please", review)
    assert list(stored.steps.order_by("id").values_list("attempt__index", "step__index", "score", "comment")) == [
        (1, 0, 0.25, "rude"),
        (0, None, 1.0, ""),
    ]
    review.refresh_from_db()
    assert review.state == Review.State.CLOSED
    assert review.closed_at is not None
    assert Task.objects.get().state == Task.State.LEARNING
    kinds = set(AuditEntry.objects.values_list("kind", flat=True))
    assert kinds == {"review.closed", "feedback.given", "task.learning"}


@pytest.mark.parametrize(
    ("words", "field", "message"),
    [
        ({}, "feedback", "wanted a score, words"),
        ({"score": 1.5}, "score", "wanted a score from 0 to 1, or none, found 1.5"),
        ({"score": float("nan")}, "score", "found nan"),
        ({"score": True}, "score", "found True"),
        ({"text": "x" * 20_001}, "text", "at most 20,000 characters, found 20,001"),
        ({"text": "a\x00b"}, "text", "without NUL"),
        ({"preferred_attempt": 2}, "preferred_attempt", r"an answer \(0, 1\), found 2"),
        ({"preferred_attempt": -1}, "preferred_attempt", "found -1"),
        ({"steps": [StepRating(attempt_index=5, score=1)]}, "steps.0", "an attempt of 0, 1, found 5"),
        ({"steps": [StepRating(attempt_index=0, step_index=2, score=1)]}, "steps.0", r"attempt 0 \(0 to 1\), found 2"),
        ({"steps": [StepRating(attempt_index=0, step_index=-1, score=1)]}, "steps.0", "found -1"),
        ({"steps": [StepRating(attempt_index=0, step_index=0, score=-0.1)]}, "steps.0", "found -0.1"),
        ({"steps": [StepRating(attempt_index=0, step_index=0)]}, "steps.0", "a score or a comment"),
        ({"steps": [StepRating(attempt_index=0, score=1)] * 2}, "steps.1", "a second word"),
    ],
)
def test_bad_words_are_refused_by_name_and_leave_no_trace(
    project: Project, bob: User, words: dict[str, Any], field: str, message: str
) -> None:
    review = make_open_review(project)
    with pytest.raises(BadInputError, match=message) as caught:
        give_feedback(review=review, by=bob, **words)
    assert set(caught.value.errors) == {field}
    review.refresh_from_db()
    assert (review.state, review.task.state) == (Review.State.OPEN, Task.State.IN_REVIEW)
    assert not Feedback.objects.exists()
    assert not AuditEntry.objects.exists()


def test_an_attempt_that_failed_cannot_be_preferred(project: Project, bob: User) -> None:
    review = make_open_review(project)
    Attempt.objects.filter(index=1).update(state=Attempt.State.FAILED)
    with pytest.raises(BadInputError, match=r"with an answer \(0\), found 1"):
        give_feedback(review=review, by=bob, preferred_attempt=1)


def test_of_two_who_close_a_review_the_second_is_told(project: Project, alice: User, bob: User) -> None:
    review = make_open_review(project)
    give_feedback(review=review, by=bob, score=1)
    with pytest.raises(IllegalMoveError, match="found closed") as caught:
        give_feedback(review=review, by=alice, score=0)
    assert caught.value.status == 409
    assert Feedback.objects.get().author == "user:bob"


def test_a_review_another_has_open_cannot_be_closed_or_skipped(project: Project, alice: User, bob: User) -> None:
    review = claim(make_open_review(project), bob)
    with pytest.raises(ReviewTakenError, match="user:bob has it"):
        give_feedback(review=review, by=alice, score=0)
    with pytest.raises(ReviewTakenError, match="user:bob has it"):
        skip_review(review=review, by=alice, reason="not mine")
    assert give_feedback(review=review, by=bob, score=1).score == 1


def test_a_skipped_review_keeps_its_reason_and_the_task_learns_without_it(project: Project, bob: User) -> None:
    review = make_open_review(project)
    with pytest.raises(BadInputError, match="wanted 1 to 300 characters"):
        skip_review(review=review, by=bob, reason=" ")
    skip_review(review=review, by=bob, reason="I know nothing of mugs")
    assert Task.objects.get().state == Task.State.LEARNING
    assert AuditEntry.objects.get(kind="review.skipped").payload["reason"] == "I know nothing of mugs"
    assert not Feedback.objects.exists()


def test_a_second_opinion_is_another_persons_and_only_then_the_task_learns(
    project: Project, alice: User, bob: User
) -> None:
    project.review_policy = {"who": "human", "double_review_rate": 1.0}
    project.save()
    task = make_chat_task(project)
    open_reviews([task.pk])
    first = claim_review(project, bob)
    assert first is not None
    give_feedback(review=first, by=bob, score=1)
    task.refresh_from_db()
    assert task.state == Task.State.IN_REVIEW
    assert claim_review(project, bob) is None
    second = claim_review(project, alice)
    assert second is not None
    give_feedback(review=second, by=alice, score=0)
    task.refresh_from_db()
    assert task.state == Task.State.LEARNING
    assert task.reviews.count() == 2


def test_a_person_may_speak_after_learning_and_nothing_is_lost(project: Project, bob: User) -> None:
    task = make_chat_task(project, state=Task.State.DONE)
    feedback = give_task_feedback(task=task, by=bob, text="too late, and still true")
    assert (feedback.review, feedback.source, feedback.trust) == (None, "human", 1.0)
    task.refresh_from_db()
    assert task.state == Task.State.DONE


def test_an_agents_word_for_its_user_is_kept_apart_and_trusted_less(project: Project, bob: User) -> None:
    claw = make_user("claw", is_agent=True)
    Member.objects.create(project=project, user=claw, role=Role.AGENT)
    task = make_chat_task(project)
    assert give_task_feedback(task=task, by=claw, score=0).trust == 0.5
    stored = give_task_feedback(task=task, by=claw, score=0, trust=0.1)
    assert (stored.source, stored.author, stored.trust) == ("outside", "agent:claw", 0.1)
    with pytest.raises(BadInputError, match="trust: wanted 0 to 1"):
        give_task_feedback(task=task, by=claw, score=0, trust=2)
    with pytest.raises(BadInputError, match="from an agent or app only"):
        give_task_feedback(task=task, by=bob, score=0, trust=0.3)


def test_an_agent_closes_no_review_and_charlie_finds_none(project: Project, charlie: User) -> None:
    claw = make_user("claw", is_agent=True)
    Member.objects.create(project=project, user=claw, role=Role.AGENT)
    review = make_open_review(project)
    with pytest.raises(NotAllowedError, match="claw is agent"):
        give_feedback(review=review, by=claw, score=1)
    with pytest.raises(NotFoundError):
        give_feedback(review=review, by=charlie, score=1)
    with pytest.raises(NotFoundError):
        give_task_feedback(task=review.task, by=charlie, score=1)
    assert not StepFeedback.objects.exists()


def test_a_persons_words_at_the_desk_teach_where_they_hold_its_grammar(project: Project, bob: User) -> None:
    task = make_desk_task(project, [write_answer()], state=Task.State.LEARNING)
    good = give_task_feedback(task=task, by=bob, text="Please use gift here, and always write the unit!")
    vague = give_task_feedback(task=task, by=bob, text="Could be nicer.")
    extract_hints([task.pk])
    assert good.hints.get().text == "use gift, write the unit"
    nothing = vague.hints.get()
    assert (nothing.text, nothing.source) == ("", "none")
    assert "hold no hint that is read here" in nothing.reason
