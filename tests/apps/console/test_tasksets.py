"""Tasksets in the console: made, filled, split, frozen, and a task that is kept with its correction."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.evals.holding import find_held_out
from apps.evals.models import Evaluation, Item, Taskset
from apps.feedback.models import Feedback
from apps.tasks.models import Task
from apps.workers.models import Worker
from tests.apps.console.builders import sign_in
from tests.factories import make_judged_task, make_measured

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(alice: User) -> Client:
    return sign_in(alice)


def path(name: str, *args: object) -> str:
    return reverse(f"console:{name}", args=("shop", *args))


def make(client: Client) -> Taskset:
    assert client.post(path("taskset-new"), {"name": "exam", "environment": "chat"}).status_code == 302
    return Taskset.objects.get()


def test_a_taskset_is_made_filled_split_and_frozen(client: Client, project: Project) -> None:
    taskset = make(client)
    assert client.post(path("taskset-new"), {"name": "exam", "environment": "chat"}).status_code == 409
    assert "nothing can be shown with it" in client.get(path("taskset", taskset.pk)).content.decode()
    file = SimpleUploadedFile("sums.csv", b"prompt,reference\nWhat is 3 + 4?,7\nName a sea.,\nName a sea!,\n")
    added = client.post(path("taskset-add", taskset.pk), {"split": "held_out", "file": file}, follow=True)
    page = added.content.decode()
    assert "2 items were added. 1 said what an item there says already." in page
    assert "With 2 held-out items, a difference of 87.9\u00a0% between two models is found four times in five" in page
    assert "To find 5.0\u00a0% takes 617 more items" not in page  # the next smaller two are told
    assert "sums.csv, line 2" in page
    split = client.post(path("taskset-split", taskset.pk), {"held_out": 60, "skills": 60, "seed": 0})
    assert split.status_code == 400
    client.post(path("taskset-split", taskset.pk), {"held_out": 0, "skills": 100, "seed": 0})
    assert set(Item.objects.values_list("split", flat=True)) == {"skills"}
    assert "never changes again" in client.get(path("taskset-freeze", taskset.pk)).content.decode()
    client.post(path("taskset-freeze", taskset.pk))
    client.post(path("taskset-add", taskset.pk), {"split": "skills", "text": "Name a lake."})
    assert [str(one) for one in Taskset.objects.order_by("version")] == ["exam@1", "exam@2"]
    assert "exam@2" in client.get(path("taskset-list")).content.decode()


def test_what_the_gate_measured_on_is_named_as_people_name_it(client: Client, project: Project, worker: Worker) -> None:
    make_measured(worker, None, [1.0] * 3, items="own/chat/1f0c")
    make_measured(worker, None, [1.0] * 3, items="desk/300/0")
    asked = path("taskset-list")
    page = client.get(asked).content.decode()
    assert "own held-out items, Chat" in page, "nobody knows which they are"
    assert "300 made-up tasks, Ticket desk, draw 1" in page
    taskset = Taskset.objects.create(project=project, name="exam", version=1, environment="chat")
    Item.objects.create(taskset=taskset, prompt="Two?", split="held_out", content_hash="0", bands=[0])
    assert "held-out items of exam" in client.get(asked).content.decode()


def test_an_item_is_deleted_by_who_may_while_its_set_changes_and_nothing_was_measured(
    client: Client, bob: User, project: Project, worker: Worker
) -> None:
    taskset = make(client)
    client.post(path("taskset-add", taskset.pk), {"split": "train", "text": "Name a sea.\nName a lake in Finland."})
    sea, lake = Item.objects.order_by("pk")
    ask, shown = path("item-delete", taskset.pk, sea.pk), path("taskset", taskset.pk) + "?split=train"
    assert ask in client.get(shown).content.decode()
    assert ask not in sign_in(bob).get(shown).content.decode()
    assert sign_in(bob).post(ask).status_code == 403
    assert "Name a sea." in client.get(ask).content.decode()
    done = client.post(ask, follow=True)
    assert ("The item is deleted." in done.content.decode(), done.redirect_chain[-1][0]) == (True, shown)
    assert list(Item.objects.all()) == [lake]
    assert client.post(ask).status_code == 404
    ask = path("item-delete", taskset.pk, lake.pk)
    Evaluation.objects.create(
        project=project, worker=worker, taskset=taskset, item_set="exam", purpose="report", asked_hash="", planned=0
    )
    assert ask not in client.get(shown).content.decode()
    for answer in (client.get(ask), client.post(ask, follow=True)):
        assert "exam@1 is kept for what was measured on it: 1 evaluations" in answer.content.decode()
    Evaluation.objects.all().delete()
    client.post(path("taskset-freeze", taskset.pk))
    assert "exam@1 is frozen" in client.post(ask, follow=True).content.decode()
    assert Item.objects.get() == lake


def test_what_is_wrong_with_a_file_is_said_by_line_and_nothing_is_kept(client: Client, project: Project) -> None:
    taskset = make(client)
    for said, words in (
        ({}, "Choose a file, paste a text"),
        ({"text": "a", "count": 3}, "one of these"),
        ({"text": "prompt,weight\na,1\nb,nan\n"}, "line 3: weight: wanted a number above 0, at most 100, found nan"),
        ({"count": 3}, "wanted one that makes up held_out tasks, found &#x27;chat&#x27;"),
        ({"file": SimpleUploadedFile("big.jsonl", b"x" * 1_000_001)}, "Wanted a file of at most 1,000,000 bytes"),
    ):
        answer = client.post(path("taskset-add", taskset.pk), {"split": "held_out"} | said)
        assert (answer.status_code, words in answer.content.decode()) == (400, True), words
    assert not Item.objects.exists()


def test_a_task_is_kept_with_its_correction_and_from_then_on_held_out(client: Client, project: Project) -> None:
    task = make_judged_task(project, prompt="How long does a parcel take?", group_size=1)
    Feedback.objects.create(
        project=project, task=task, source="human", author="user:alice", score=0.2, edited_answer="Two days."
    )
    assert "Add to a taskset" in client.get(path("task", task.pk)).content.decode()
    assert "Two days." in client.get(path("task-keep", task.pk)).content.decode()
    said = {"name": "exam", "split": "held_out", "reference": "Two days", "reference_match": "contains"}
    assert client.post(path("task-keep", task.pk), said).status_code == 302
    item = Item.objects.get()
    assert (item.source, item.reference) == (f"task {task.pk}", {"match": "contains", "value": "Two days"})
    assert find_held_out(Task.objects.all()) == {task.pk}
    assert "Workers are measured on it and never learn from it" in client.get(path("task", task.pk)).content.decode()


def test_a_rule_with_facts_is_written_and_holds_for_every_row_of_a_file(client: Client, project: Project) -> None:
    """As docs/guides/your-own-rules.md says it."""
    rule = {"join": "all", "kind_0": "contains", "value_0": "{customer}", "kind_1": "regex"}
    said = rule | {"value_1": r"\b{refund} euros?\b", "name": "house"}
    assert client.post(path("check-list"), said).status_code == 302
    named = project.checks.get()
    assert named.spec["all"][1] == {"check": "regex", "pattern": {"fact": r"\b{refund} euros?\b"}}
    taskset = make(client)
    address = path("taskset-add", taskset.pk)
    assert "house@1" in client.get(address).content.decode()
    rows = "prompt,split,customer,refund\nMy lamp broke.,held_out,Jana,43\nWhere is it?,train,Tom,5\n"
    assert client.post(address, {"split": "train", "checks": "house@1", "text": rows}).status_code == 302
    checks = [item.checks for item in taskset.items.order_by("pk")]
    assert [one[0]["with"] for one in checks if one] == [
        {"customer": "Jana", "refund": "43"},
        {"customer": "Tom", "refund": "5"},
    ]
    lacking = client.post(address, {"split": "train", "checks": "house@1", "text": "prompt,customer\nNow?,Ann\n"})
    assert lacking.status_code == 400
    assert "wanted the fact &#x27;refund&#x27;" in lacking.content.decode()


RIGHT: list[tuple[Any, Any, str]] = [
    ({"match": "number", "value": 17}, None, "17, number"),
    ({"match": "exact", "value": "Bern"}, None, "Bern, exact"),
    ("Bern", None, "Bern"),
    ({"files": ["a.txt"]}, None, "{&quot;files&quot;: [&quot;a.txt&quot;]}"),
    (None, {"use": "mail-file@1", "is": {"check": "contains", "value": "Busch"}}, "passes mail-file@1"),
    (
        None,
        [
            {
                "all": [
                    {"use": "tone@2"},
                    {"any": [{"check": "regex", "pattern": "A-[0-9]+"}, {"check": "length", "max": 9}]},
                ]
            }
        ],
        "passes tone@2; and matches the pattern A-[0-9]+; or has at most 9 characters",
    ),
    (
        "Bern",
        [{"weighted": [[2, {"use": "tone@2"}], [1, {"check": "number", "value": 7, "tolerance": 0.5}]]}],
        "Bern; passes tone@2 (weight 2); ends with the number 7 ± 0.5 (weight 1)",
    ),
    (None, None, '<span class="muted">none</span>'),
]


@pytest.mark.parametrize(("reference", "checks", "words"), RIGHT)
def test_what_is_right_is_said_in_words(
    client: Client, project: Project, reference: Any, checks: Any, words: str
) -> None:
    taskset = make(client)
    Item.objects.create(
        taskset=taskset,
        split="held_out",
        prompt="Where?",
        reference=reference,
        checks=checks,
        content_hash="0",
        bands=[],
    )
    cell = f'<td data-label="Reference or checks">{words}</td>'
    assert cell in client.get(path("taskset", taskset.pk)).content.decode()


def test_what_is_right_is_shown_to_who_leads_alone(client: Client, project: Project, bob: User) -> None:
    taskset = make(client)
    file = SimpleUploadedFile("sums.csv", b"prompt,reference\nWhat is 3 + 4?,seven it is\n")
    client.post(path("taskset-add", taskset.pk), {"split": "held_out", "file": file})
    page = path("taskset", Taskset.objects.latest("pk").pk)
    for who, is_told in ((client, True), (sign_in(bob), False)):
        shown = who.get(page).content.decode()
        assert "What is 3 + 4?" in shown
        assert ("seven it is" in shown) is is_told
