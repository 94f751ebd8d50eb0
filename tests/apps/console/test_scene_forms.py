"""What people do on the pages to what is there already, by plain forms."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.feedback.models import Feedback, Review
from apps.outbox.models import Segment
from apps.tasks.models import Task
from tests.apps.console.builders import sign_in
from tests.e2e.scenery import Scene
from tests.factories import make_user

pytestmark = pytest.mark.django_db


def path(name: str, *args: object) -> str:
    return reverse(f"console:{name}", args=("desk", *args))


def test_what_the_service_refuses_stands_beside_the_form_and_keeps_what_was_typed(scene: Scene) -> None:
    typed = {"environment": "desk", "prompt": "no ticket the desk could read"}
    data = {"worker": str(scene.worker.pk), "group_size": "2"} | typed
    answer = sign_in(scene.alice).post(path("task-new"), data)
    page = answer.content.decode()
    assert answer.status_code == 400
    assert "no ticket the desk could read" in page
    assert 'class="note error"' in page
    assert "Traceback" not in page


def test_a_review_is_claimed_by_opening_it_and_closed_by_its_feedback(scene: Scene) -> None:
    bob = make_user("bob")
    client = sign_in(bob)
    opened = client.post(path("review-claim", scene.review.pk), follow=True)
    assert "Your judgement" in opened.content.decode()
    scene.review.refresh_from_db()
    assert scene.review.claimed_by == bob
    said = {
        "score": "0.4",
        "text": "The surcharge is waived.",
        "preferred_attempt": "0",  # attempts 2 and 3 read the same and stand on its card
        "edited_answer": "32.10",
        "a1-s2-score": "0",
        "a1-s2-comment": "Wrong from here on.",
        "a0-comment": "The same mistake.",
    }
    answer = client.post(path("review", scene.review.pk), said)
    assert answer.headers["Location"] == path("review-list")
    feedback = Feedback.objects.get(review=scene.review)
    assert (feedback.score, feedback.author, feedback.edited_answer) == (0.4, "user:bob", "32.10")
    assert feedback.preferred_attempt is not None
    assert feedback.preferred_attempt.index == 0
    words = {(w.attempt.index, w.step.index if w.step else None): (w.score, w.comment) for w in feedback.steps.all()}
    assert words == {(1, 2): (0.0, "Wrong from here on."), (0, None): (None, "The same mistake.")}
    scene.review.refresh_from_db()
    assert scene.review.state == Review.State.CLOSED


def test_feedback_for_a_review_somebody_took_over_is_refused_and_the_draft_survives(scene: Scene) -> None:
    first, second = sign_in(scene.alice), sign_in(make_user("bob"))
    first.post(path("review-claim", scene.review.pk))
    Review.objects.filter(pk=scene.review.pk).update(claimed_by=make_user("bob"))
    answer = first.post(path("review", scene.review.pk), {"text": "My careful words."})
    assert answer.status_code == 409
    assert "My careful words." in answer.content.decode()
    assert second.post(path("review", scene.review.pk), {"score": "1"}).status_code == 302
    assert Feedback.objects.filter(review=scene.review).count() == 1


def test_a_review_in_other_hands_is_offered_and_not_opened(scene: Scene) -> None:
    sign_in(make_user("bob")).post(path("review-claim", scene.review.pk))
    client = sign_in(scene.alice)
    page = client.get(path("review", scene.review.pk)).content.decode()
    assert "bob has it open" in page
    assert "Your judgement" not in page
    refused = client.post(path("review-claim", scene.review.pk), follow=True).content.decode()
    assert "user:bob has it" in refused


def test_a_reviewer_sees_no_score_before_giving_one(scene: Scene) -> None:
    client = sign_in(scene.alice)
    page = client.post(path("review-claim", scene.review.pk), follow=True).content.decode()
    assert "Step verifier" not in page
    assert "<meter" not in page


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "Enter a score, a comment, a best answer or a corrected answer."),
        ({"score": "1.2"}, "less than or equal to 1"),
        ({"a0-s0-score": "-1"}, "greater than or equal to 0"),
        ({"preferred_attempt": "77"}, "Select a valid choice."),
    ],
)
def test_feedback_that_says_nothing_or_the_impossible_is_refused(
    scene: Scene, data: dict[str, str], words: str
) -> None:
    client = sign_in(scene.alice)
    client.post(path("review-claim", scene.review.pk))
    answer = client.post(path("review", scene.review.pk), data)
    assert answer.status_code == 400
    assert words in answer.content.decode()
    assert not Feedback.objects.filter(review=scene.review).exists()


def test_feedback_on_a_task_nobody_asked_about_is_kept(scene: Scene) -> None:
    answer = sign_in(scene.alice).post(path("task-feedback", scene.reviewed.pk), {"score": "0.9", "text": "Fine."})
    assert answer.headers["Location"] == path("task", scene.reviewed.pk)
    assert Feedback.objects.filter(task=scene.reviewed, author="user:alice", score=0.9).exists()


def test_the_next_review_is_handed_out_until_none_is_left(scene: Scene) -> None:
    client = sign_in(make_user("bob"))
    assert client.post(path("review-next")).headers["Location"] == path("review", scene.review.pk)
    other = sign_in(scene.alice)
    assert "No review is waiting for you" in other.post(path("review-next"), follow=True).content.decode()


def test_a_review_can_be_given_back_and_skipped_with_a_reason(scene: Scene) -> None:
    client = sign_in(scene.alice)
    client.post(path("review-claim", scene.review.pk))
    client.post(path("review-release", scene.review.pk))
    scene.review.refresh_from_db()
    assert scene.review.claimed_by is None
    assert client.post(path("review-skip", scene.review.pk), {"reason": ""}).status_code == 400
    client.post(path("review-skip", scene.review.pk), {"reason": "not my field"})
    scene.review.refresh_from_db()
    assert scene.review.state == Review.State.SKIPPED


def test_a_task_is_cancelled_once_and_the_second_time_is_refused_in_words(scene: Scene) -> None:
    client = sign_in(scene.alice)
    client.post(path("task-cancel", scene.in_review.pk))
    scene.in_review.refresh_from_db()
    assert scene.in_review.state == Task.State.CANCELLED
    page = client.post(path("task-cancel", scene.in_review.pk), follow=True).content.decode()
    assert 'class="note error"' in page


def test_a_dead_letter_is_replayed_by_a_manager_only(scene: Scene) -> None:
    assert sign_in(make_user("bob")).post(path("replay", scene.dead.pk)).status_code == 403
    sign_in(scene.alice).post(path("replay", scene.dead.pk))
    scene.dead.refresh_from_db()
    scene.failed.refresh_from_db()
    assert (scene.dead.state, scene.failed.state) == (Segment.State.OPEN, Task.State.QUEUED)


def test_a_form_without_its_token_changes_nothing(scene: Scene) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(scene.alice)
    answer = client.post(path("task-cancel", scene.in_review.pk))
    assert answer.status_code == 403
    assert "no longer valid" in answer.content.decode()
    scene.in_review.refresh_from_db()
    assert scene.in_review.state == Task.State.IN_REVIEW


def test_a_button_is_never_a_link(scene: Scene) -> None:
    client = sign_in(scene.alice)
    for name, row in (("review-claim", scene.review), ("replay", scene.dead)):
        assert client.get(path(name, row.pk)).status_code == 405
