"""Evaluations in the console: asked for, paused, taken up, cancelled, read by item, and put beside each other."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Member, Project, User
from apps.adapters.models import Adapter
from apps.console.selectors.items_compared import SHOWN
from apps.evals.models import Evaluation, Taskset, TryRecord
from apps.evals.panels import key_of, read_item
from apps.feedback.models import Feedback
from tentalis.core.packing import pack_float32, pack_int32
from tests.apps.console.builders import sign_in
from tests.factories import make_attempt, make_measured, make_task, make_worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(alice: User) -> Client:
    return sign_in(alice)


def path(name: str, *args: object) -> str:
    return reverse(f"console:{name}", args=("shop", *args))


def read(client: Client, address: str) -> str:
    return " ".join(client.get(address).content.decode().split())


def test_an_evaluation_is_asked_for_paused_taken_up_and_cancelled(client: Client, project: Project) -> None:
    make_worker(project, name="talker", kind="chat")
    taskset = Taskset.objects.create(project=project, name="exam", environment="chat")
    said = {"worker": "talker", "taskset": taskset.pk, "split": "held_out", "tries": 2}
    empty = client.post(path("evaluation-new"), said)
    assert empty.status_code == 400
    assert "wanted 1 to 5,000 items, found 0" in empty.content.decode()
    client.post(path("taskset-add", taskset.pk), {"split": "held_out", "text": "Name a river."})
    assert client.post(path("evaluation-new"), said).status_code == 302
    evaluation = Evaluation.objects.get()
    assert (evaluation.planned, evaluation.is_greedy, evaluation.adapter) == (2, False, None)
    assert client.post(path("evaluation-new"), said).status_code == 302
    assert Evaluation.objects.count() == 1
    for verb, state in (("pause", "paused"), ("resume", "queued"), ("cancel", "cancelled")):
        client.post(path(f"evaluation-{verb}", evaluation.pk))
        evaluation.refresh_from_db()
        assert evaluation.state == state
    page = read(client, path("evaluation", evaluation.pk))
    assert "Nothing was tried yet." in page
    assert path("evaluation-pause", evaluation.pk) not in page
    assert "Cancelled" in read(client, path("evaluation-list"))


def test_two_models_on_the_same_items_are_compared(client: Client, project: Project) -> None:
    worker = make_worker(project)
    adapter = Adapter.objects.create(
        project=project, worker=worker, name="desk-v1", version=1, line_version=1, uri="file:///a", manifest={}
    )
    same: dict[str, Any] = {
        "items": "exam@1/held_out",
        "item_set_hash": "5f",
        "purpose": "report",
        "asked_by": "user:alice",
    }
    base = make_measured(worker, None, [0, 0, 0, 1] * 10, **same)
    better = make_measured(worker, adapter, [1, 1, 0, 1] * 10, **same)
    other = make_measured(worker, None, [1], items="other", item_set_hash="6a", purpose="report", asked_by="user:alice")
    page = read(client, path("evaluation", better.pk) + f"?beside={base.pk}")
    assert "+50.0 percentage points" in page
    assert "This one is better." in page
    assert f"{base.pk}: {worker.name}, the base model</option>" in page
    assert '<a href="?start=20" rel="next">' in page
    assert page.count('data-label="Number"') == 20
    assert read(client, path("evaluation", better.pk) + "?start=20").count('data-label="Number"') == 20
    assert "The other one is better." in read(client, path("evaluation", base.pk) + f"?beside={better.pk}")
    assert client.get(path("evaluation", better.pk) + f"?beside={other.pk}").status_code == 404
    assert client.get(path("evaluation", better.pk) + "?beside=x").status_code == 404


def test_two_models_are_read_item_by_item_by_who_did_better(client: Client, project: Project) -> None:
    worker = make_worker(project)
    adapter = Adapter.objects.create(
        project=project, worker=worker, name="desk-v1", version=1, line_version=1, uri="file:///a", manifest={}
    )
    same: dict[str, Any] = {"item_set_hash": "5f", "purpose": "report", "asked_by": "user:alice"}
    base = make_measured(worker, None, [0, 1, 0, 1] * 20, items="exam@1/held_out", **same)
    better = make_measured(worker, adapter, [1, 0, 0, 1] * 20, items="exam@1/held_out", **same)
    apart = make_measured(worker, None, [1], items="o", item_set_hash="6a", purpose="report", asked_by="user:alice")
    address = path("evaluation-items", better.pk, base.pk)

    def list_places(query: str) -> list[int]:
        found: list[int] = []
        start: int | None = 0
        while start is not None:
            page = client.get(f"{address}?{query}&start={start}").context
            found += [item.number - 1 for item in page["items"]]
            start = page["following"]
        return found

    for kind, remainder in (("won", 0), ("lost", 1), ("wrong", 2), ("right", 3)):
        assert list_places(f"kind={kind}") == list(range(remainder, 80, 4))
    assert list_places("") == list(range(80))
    page = read(client, address)
    assert page.count("data-item ") == SHOWN
    assert "Further items" in page
    swapped = client.get(path("evaluation-items", base.pk, better.pk) + "?kind=lost").context["items"]
    assert {item.side for item in swapped} == {"lost"}
    better.item_tries.filter(place=0).update(outcome=None, cause="infrastructure")
    assert [item.side for item in client.get(address).context["items"]][:3] == ["unknown", "lost", "same"]
    assert read(client, address).count("not compared") == 1
    assert client.get(path("evaluation-items", better.pk, apart.pk)).status_code == 404
    assert path("evaluation-items", better.pk, base.pk) in read(
        client, path("evaluation", better.pk) + f"?beside={base.pk}"
    )


def test_a_prompt_is_shown_where_its_item_is_what_it_was(client: Client, project: Project) -> None:
    worker = make_worker(project)
    taskset = Taskset.objects.create(project=project, name="exam", environment="chat")
    rows = [
        taskset.items.create(split="held_out", prompt=f"Name river {n}.", content_hash=f"{n}", bands=[])
        for n in range(3)
    ]
    keys = [key_of(read_item(row)) for row in rows]
    made = make_measured(
        worker, None, [1, 0, 1], keys=keys, purpose="report", asked_by="user:alice", taskset=taskset, split="held_out"
    )
    rows[1].prompt = "Name a lake."
    rows[1].save()
    tried = client.get(path("evaluation", made.pk)).context["tried"]
    assert [item.prompt for item in tried] == ["Name river 0.", "", "Name river 2."]


def test_an_evaluation_under_way_shows_how_far_it_is(client: Client, project: Project) -> None:
    made = make_measured(make_worker(project), None, [1, 0], purpose="report", asked_by="user:alice")
    assert "<progress" not in read(client, path("evaluation", made.pk))
    Evaluation.objects.filter(pk=made.pk).update(state="running", planned=8, finished_at=None)
    page = read(client, path("evaluation", made.pk) + "?fragment=evaluation")
    assert '<progress max="8" value="2"' in page
    assert "<html" not in page


def test_a_try_is_read_with_its_calls_its_tokens_and_its_grade(client: Client, project: Project) -> None:
    made = make_measured(make_worker(project), None, [1, 0], purpose="report", asked_by="user:alice")
    first = made.item_tries.get(place=0)
    call = {"type": "function", "function": {"name": "stock", "arguments": '{"item": "lamp"}'}}
    TryRecord.objects.create(
        item_try=first,
        answer="12",
        messages=[
            {"role": "user", "content": "How many lamps?"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "12 in stock"},
            {"role": "assistant", "content": "There are 12."},
        ],
        prompt_hash="0" * 32,
        verification={"outcome": 1.0, "checks": [{"check": "grader", "words": "choice gives it 1.00"}]},
        turn_tokens=[2, 3],
        token_ids=pack_int32([5, 6, 7, 8, 9]),
        logprobs=pack_float32([-0.01, -0.02, -0.5, -3.0, -9.0]),
    )
    page = read(client, path("evaluation-try", made.pk, 0, 0))
    for words in ("How many lamps?", "stock", "12 in stock", "There are 12.", "choice gives it 1.00"):
        assert words in page
    turns = client.get(path("evaluation-try", made.pk, 0, 0)).context["view"].turns
    assert [list(turn.token_ids) for turn in turns] == [[5, 6], [7, 8, 9]]
    for look in ("sure", "likely", "unlikely", "rare"):
        assert f'<i class="{look}" title' in page
    assert path("evaluation-try", made.pk, 1, 0) in page
    assert "Its conversation was not kept." in read(client, path("evaluation-try", made.pk, 1, 0))
    assert client.get(path("evaluation-try", made.pk, 2, 0)).status_code == 404


def test_a_person_grades_a_try_and_the_run_says_how_far_they_agree(
    client: Client, project: Project, charlie: User
) -> None:
    made = make_measured(make_worker(project), None, [1, 0, 1], purpose="report", asked_by="user:alice")
    made.item_tries.filter(place__lt=2).update(answer="12 lamps", grader="number@1")
    assert "Graders beside people" not in read(client, path("evaluation", made.pk))
    address = path("evaluation-try", made.pk, 0, 0)
    assert "12 lamps" in read(client, address)
    assert client.post(address, {"text": "?"}).status_code == 400
    assert client.post(address, {"grade": "2"}).status_code == 400
    assert client.post(address, {"verdict": "wrong", "text": "It <guessed>."}).status_code == 302
    assert "It &lt;guessed&gt;." in read(client, address)
    assert client.post(path("evaluation-try", made.pk, 1, 0), {"grade": "0.25"}).status_code == 302
    page = read(client, path("evaluation", made.pk))
    assert "Graders beside people" in page
    assert "50.0 %" in page
    assert "1 grade differs" in page
    assert "Keep this grade" not in read(client, path("evaluation-try", made.pk, 2, 0))  # nobody can read its answer
    Member.objects.create(project=project, user=charlie, role="viewer")
    viewer = sign_in(charlie)
    assert "Keep this grade" not in read(viewer, address)
    assert viewer.post(address, {"verdict": "right"}).status_code == 403


def test_a_correction_is_kept_by_one_button_and_later_adapters_say_whether_it_holds(
    client: Client, project: Project
) -> None:
    worker = make_worker(project, "talker", kind="chat")
    adapter = Adapter.objects.create(
        project=project, worker=worker, name="talker-v1", version=1, line_version=1, uri="file:///a", manifest={}
    )
    assert "Corrections before it" not in read(client, path("adapter", adapter.pk))
    task = make_task(project, worker, prompt="Name the river of Rome.", state="done")
    make_attempt(task, tokens=0)
    said = {"project": project, "task": task, "source": "human", "author": "user:alice", "score": 0.0}
    feedback = Feedback.objects.create(**said, edited_answer="Tiber")
    keep = path("feedback-keep", feedback.pk)
    assert f'action="{keep}"' in read(client, path("feedback", feedback.pk))
    rejected, approved = Feedback.objects.create(**said), Feedback.objects.create(**said | {"score": 0.5})
    assert f'href="{path("feedback-keep", rejected.pk)}"' in read(client, path("feedback", rejected.pk))
    assert path("feedback-keep", approved.pk) not in read(client, path("feedback", approved.pk))
    assert client.post(path("feedback-keep", rejected.pk), {}).status_code == 400
    assert client.post(keep, {}).status_code == 302
    item = Taskset.objects.get(name="regressions-chat").items.get()
    assert (item.split, item.reference) == ("held_out", {"match": "contains", "value": "Tiber"})
    assert "1 correction of an answer before it: not measured." in read(client, path("adapter", adapter.pk))
    asked = client.post(path("adapter-regressions", adapter.pk))
    evaluation = Evaluation.objects.get(adapter=adapter)
    assert asked["Location"] == path("evaluation", evaluation.pk)
    assert (evaluation.taskset, evaluation.indices, evaluation.is_greedy) == (item.taskset, [0], True)
    evaluation.item_tries.create(place=0, key=key_of(read_item(item)), outcome=1.0)
    Evaluation.objects.filter(pk=evaluation.pk).update(state="done")
    assert "1 of 1 measured still hold: 100.0 %" in read(client, path("adapter", adapter.pk))


def test_figures_stand_by_category_where_items_have_one(client: Client, project: Project) -> None:
    made = make_measured(make_worker(project), None, [1, 0, 1, 1], purpose="report", asked_by="user:alice")
    assert "By category" not in read(client, path("evaluation", made.pk))
    other = make_measured(make_worker(project, "b"), None, [1, 0, 1, 1], purpose="report", asked_by="user:alice")
    other.item_tries.filter(place__lt=2).update(category="rivers")
    other.item_tries.filter(place__gte=2).update(category="lakes")
    page = client.get(path("evaluation", other.pk))
    found = {one.category: one.accuracy.value for one in page.context["figures"].categories}
    assert found == {"rivers": 0.5, "lakes": 1.0}
    assert "By category" in page.content.decode()


def test_several_are_compared_with_one_of_the_same_items(client: Client, project: Project) -> None:
    worker = make_worker(project)
    assert "Nothing to compare yet" in read(client, path("experiment-new"))
    shared: dict[str, Any] = {"items": "exam@1/held_out", "item_set_hash": "5f"}
    asked: dict[str, Any] = {"purpose": "report", "asked_by": "user:alice"}
    base, better, same = (
        make_measured(worker, None, outcomes, seed=seed, **shared, **asked)
        for seed, outcomes in enumerate([[0, 0, 0, 1] * 10, [1, 1, 0, 1] * 10, [0, 0, 1, 0] * 10])
    )
    other = make_measured(worker, None, [1], items="rivers@1/train", item_set_hash="6a", **asked)
    said = {"experiment": "two <seeds>", "reference": base.pk}
    refused = client.post(path("experiment-new"), {**said, "candidates": [base.pk, other.pk]})
    assert refused.status_code == 400
    words = " ".join(refused.content.decode().split())
    assert f"wanted evaluations of exam@1/held_out, found {other.pk} of rivers@1/train" in words
    assert f"wanted others than evaluation {base.pk} itself" in words
    assert client.post(path("experiment-new"), said).status_code == 400
    assert not project.experiments.exists()
    made = client.post(path("experiment-new"), {**said, "candidates": [better.pk, same.pk]})
    experiment = project.experiments.get()
    assert made["Location"] == path("experiment", experiment.pk)
    page = read(client, path("experiment", experiment.pk))
    assert "<h1>two &lt;seeds&gt;</h1>" in page
    assert "corrected for all 2 comparisons" in page
    assert page.count("This one is better.") == 1
    assert page.count("No difference is shown;") == 1
    few = make_measured(worker, None, [0], seed=1, items="rivers@1/train", item_set_hash="6a", **asked)
    answered = client.post(
        path("experiment-new"), {**said, "experiment": "few", "reference": other.pk, "candidates": few.pk}
    )
    assert "Nothing can be told: so few items (as many as 1 of equal weight)" in read(client, answered["Location"])
    assert "two &lt;seeds&gt;" in read(client, path("experiment-list"))
    Evaluation.objects.filter(pk=better.pk).update(state="running")
    assert f"evaluation {better.pk} is running: wanted it done" in read(client, path("experiment", experiment.pk))


def test_what_the_gate_measures_can_be_read_and_not_stopped(client: Client, project: Project) -> None:
    measured = make_measured(make_worker(project), None, [1, 0])
    assert path("evaluation-pause", measured.pk) not in read(client, path("evaluation", measured.pk))
    client.post(path("evaluation-cancel", measured.pk))
    measured.refresh_from_db()
    assert measured.state == "done"
