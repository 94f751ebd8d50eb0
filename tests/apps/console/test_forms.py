"""What people do on the pages, by plain forms: each reaches its service, and a refusal stands beside the form."""

import html
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.feedback.models import Feedback, Review
from apps.outbox.models import Segment
from apps.tasks.models import Task
from apps.workers.models import Worker
from tentalis.core.desk import is_held_out
from tests.apps.console.builders import sign_in
from tests.e2e.scenery import Scene, build_scene
from tests.factories import make_user, make_worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def scene(db: None) -> Scene:
    return build_scene(updates=2)


def path(name: str, *args: object, slug: str = "desk") -> str:
    return reverse(f"console:{name}", args=(slug, *args))


def task_data(chosen: Worker, **changes: str) -> dict[str, str]:
    return {"worker": str(chosen.pk), "environment": "chat", "prompt": "Say hello.", "group_size": "2"} | changes


def test_a_submitted_task_is_queued_and_shown(alice: User, project: Project, worker: Worker) -> None:
    answer = sign_in(alice).post(path("task-new", slug="shop"), task_data(worker), follow=True)
    task = Task.objects.get()
    assert (task.prompt, task.group_size, task.submitted_by, task.state) == ("Say hello.", 2, alice, "queued")
    assert Segment.objects.filter(kind="work", subject_id=task.pk).exists()
    assert f"Task {task.pk} is queued." in answer.content.decode()


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("prompt", "", "This field is required."),
        ("prompt", "x" * 100_001, "at most 100000 characters"),
        ("group_size", "65", "less than or equal to 64"),
        ("group_size", "many", "Enter a whole number."),
        ("environment", "moon", "Select a valid choice."),
        ("worker", "999999", "Select a valid choice."),
    ],
)
def test_a_field_that_cannot_be_is_named_beside_it_and_nothing_is_written(
    alice: User, project: Project, worker: Worker, field: str, value: str, words: str
) -> None:
    answer = sign_in(alice).post(path("task-new", slug="shop"), task_data(worker, **{field: value}))
    page = answer.content.decode()
    assert answer.status_code == 400
    assert words in page
    assert f'id="id_{field}_error"' in page
    assert 'aria-invalid="true"' in page
    assert not Task.objects.exists()


@pytest.mark.parametrize(
    ("typed", "match", "kept"),
    [
        ("7", "", {"match": "number", "value": "7"}),
        ("1,200.50", "", {"match": "number", "value": "1,200.50"}),
        ("Paris", "", {"match": "contains", "value": "Paris"}),
        ("7", "exact", {"match": "exact", "value": "7"}),
        ('{"match": "contains", "value": 7}', "", {"match": "contains", "value": 7}),
        ("{not json}", "", {"match": "contains", "value": "{not json}"}),
        ('{"a":' * 9_000, "", {"match": "contains", "value": '{"a":' * 9_000}),
        (" ", "", None),
    ],
)
def test_a_reference_says_how_it_matches(
    alice: User, project: Project, worker: Worker, typed: str, match: str, kept: object
) -> None:
    data = task_data(worker, reference=typed, reference_match=match)
    assert sign_in(alice).post(path("task-new", slug="shop"), data).status_code == 302
    assert Task.objects.get().reference == kept


def test_a_reference_that_cannot_match_is_refused_beside_its_field(
    alice: User, project: Project, worker: Worker
) -> None:
    data = task_data(worker, reference="seven", reference_match="number")
    answer = sign_in(alice).post(path("task-new", slug="shop"), data)
    assert answer.status_code == 400
    assert 'id="id_reference_error"' in answer.content.decode()


def test_a_reference_is_tried_on_an_example_before_anything_is_submitted(
    alice: User, project: Project, worker: Worker
) -> None:
    client, address = sign_in(alice), path("task-new", slug="shop")

    def try_it(place: str = "", **said: str) -> str:
        data = {"worker": str(worker.pk), "environment": "chat"} | said
        answer = client.post(address + place, data if place else data | {"try": "1"})
        assert answer.status_code == 200
        return " ".join(answer.content.decode().split())

    assert "<strong>Right:</strong> this answer has this number as its last one." in try_it(
        reference="7", example="The answer is 7."
    )
    live = try_it("?fragment=reference_tried", reference="7", example="The answer is 8.")
    assert "<strong>Wrong:</strong> counted as right if an answer has this number as its last one." in live
    assert "<html" not in live
    assert "Wrong:" in try_it(reference="7", reference_match="exact", example="The answer is 7.")
    assert "reference.value: wanted a number" in try_it(reference="seven", reference_match="number", example="7")
    assert "a ticket takes no reference" in try_it(reference="7", example="7", environment="desk")
    assert 'value="swe"' not in client.get(address).content.decode()  # nor any other world that is not there
    assert not Task.objects.exists()


def test_a_file_of_tasks_is_looked_at_then_taken(alice: User, project: Project, worker: Worker) -> None:
    client, address = sign_in(alice), path("task-import", slug="shop")
    data = {"worker": str(worker.pk), "environment": "chat"}
    pasted = {"text": "prompt,reference\nWhat is 3 + 4?,7\nName a colour.,\n"}
    looked = client.post(address, data | pasted | {"check": "1"}).content.decode()
    assert "2 rows can be read" in looked
    assert "Name a colour." in looked
    assert not Task.objects.exists()
    file = SimpleUploadedFile("tasks.txt", "Say hello.\n\nSay goodbye.\n".encode("utf-8-sig"))
    taken = client.post(address, data | pasted | {"file": file}, follow=True).content.decode()
    assert "2 tasks are queued." in taken
    assert [task.prompt for task in Task.objects.order_by("pk")] == ["Say hello.", "Say goodbye."]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "Choose a file, or paste the tasks."),
        ({"text": "prompt,reference,match\nOne?,one,number\n"}, "line 2: reference: reference.value: wanted a number"),
        ({"file": SimpleUploadedFile("a.csv", b"\xff\xfe")}, "found a byte that is none at place 0"),
        ({"text": '{"question": 1}'}, "line 1: wanted prompt, reference"),
    ],
)
def test_a_file_with_a_fault_is_refused_whole(
    alice: User, project: Project, worker: Worker, given: dict[str, Any], words: str
) -> None:
    answer = sign_in(alice).post(
        path("task-import", slug="shop"), {"worker": str(worker.pk), "environment": "chat"} | given
    )
    assert answer.status_code == 400
    assert words in html.unescape(answer.content.decode())
    assert not Task.objects.exists()


def test_what_the_service_refuses_stands_beside_the_form_and_keeps_what_was_typed(scene: Scene) -> None:
    data = task_data(scene.worker, environment="desk", prompt="no ticket the desk could read")
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


def test_a_task_that_the_environment_makes_up_is_filled_in_anew_at_each_click_and_taken(
    alice: User, project: Project
) -> None:
    worker = make_worker(project, kind="desk")
    client, address = sign_in(alice), path("task-new", slug="shop")
    page = html.unescape(client.get(address).content.decode())
    assert "Draw a ticket" in page
    assert "Return: (item) for (10 to 99) EUR after (2 to 29) days. Refund?" in page
    typed = task_data(worker, environment="chat", prompt="Two parcels to Zurich", reference="7", draw="desk")
    drawn = set()
    for _ in range(12):
        answer = client.post(address, typed)
        assert answer.status_code == 200
        form = answer.context["form"]
        assert (form["environment"].value(), form["group_size"].value()) == ("desk", "2")
        assert not is_held_out(form["prompt"].value())
        drawn.add(form["prompt"].value())
    assert len(drawn) > 1
    assert not Task.objects.exists()
    taken = {"worker": str(worker.pk), "environment": "desk", "prompt": drawn.pop()}
    assert client.post(address, taken).status_code == 302
    assert client.post(address, typed | {"draw": "moon"}).status_code == 404


def test_nothing_is_drawn_where_no_worker_is_made_for_such_tasks(alice: User, project: Project, worker: Worker) -> None:
    page = sign_in(alice).get(path("task-new", slug="shop")).content.decode()
    assert "Draw a" not in page
    assert "takes one of these lines" not in page
    refused = sign_in(alice).post(path("task-new", slug="shop"), task_data(worker, environment="desk", prompt="Hi."))
    assert "takes one of these lines" in refused.content.decode()
