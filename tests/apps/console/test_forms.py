"""What people do on the pages, by plain forms: each reaches its service, and a refusal stands beside the form."""

import html
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.checks.models import NamedCheck
from apps.outbox.models import Segment
from apps.tasks.models import Task
from apps.workers.models import Worker
from tentalis.core.desk import is_held_out
from tests.apps.console.builders import sign_in
from tests.factories import make_worker

pytestmark = pytest.mark.django_db


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
        ("-.5", "", {"match": "number", "value": "-.5"}),
        ("\u22125", "", {"match": "number", "value": "\u22125"}),
        ("1/2", "", {"match": "contains", "value": "1/2"}),
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
    assert 'value="moon"' not in client.get(address).content.decode()  # nor any other world that is not there
    assert not Task.objects.exists()


def test_a_file_of_tasks_is_looked_at_then_taken(alice: User, project: Project, worker: Worker) -> None:
    client, address = sign_in(alice), path("task-import", slug="shop")
    data = {"worker": str(worker.pk), "environment": "chat"}
    pasted = {"text": "prompt,reference\nWhat is 3 + 4?,7\nName a colour.,\n"}
    looked = client.post(address, data | pasted | {"check": "1"}).content.decode()
    assert "2 rows can be read" in looked
    assert "Name a colour." in looked
    assert not Task.objects.exists()
    rows = 'prompt,checks,customer\nName a fruit.,"{""check"": ""length"", ""max"": 20}",Ann\n'
    seen = client.post(address, data | {"file": SimpleUploadedFile("a.csv", rows.encode()), "check": "1"})
    told = " ".join(seen.content.decode().split())
    assert "<td>has at most 20 characters</td><td>customer: Ann</td>" in told
    assert "Name a fruit.,&quot;{" in told, "a browser chooses no file again, so the text stands in the form"
    short = {"check": "length", "max": 9}
    NamedCheck.objects.create(project=project, name="short", version=1, spec=short)
    data["checks"] = "short@1"
    assert "<td>passes short@1</td>" in client.post(address, data | pasted | {"check": "1"}).content.decode()
    file = SimpleUploadedFile("tasks.txt", "Say hello.\n\nSay goodbye.\n".encode("utf-8-sig"))
    taken = client.post(address, data | pasted | {"file": file}, follow=True).content.decode()
    assert "2 tasks are queued." in taken
    assert [task.prompt for task in Task.objects.order_by("pk")] == ["Say hello.", "Say goodbye."]
    assert [task.checks for task in Task.objects.all()] == 2 * [[{"use": "short@1", "is": short}]]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "Choose a file, or paste the tasks."),
        ({"text": "prompt,reference,match\nOne?,one,number\n"}, "line 2: reference.value: wanted a number"),
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
