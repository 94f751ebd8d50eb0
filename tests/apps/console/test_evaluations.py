"""Evaluations in the console: asked for, paused, taken up, cancelled, read by item, and put beside each other."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter
from apps.evals.models import Evaluation, Taskset
from tests.apps.console.builders import sign_in
from tests.factories import make_measured, make_worker

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
    assert '<a href="?start=25" rel="next">' in page
    assert page.count('data-label="Number"') == 25
    assert read(client, path("evaluation", better.pk) + "?start=25").count('data-label="Number"') == 15
    assert "The other one is better." in read(client, path("evaluation", base.pk) + f"?beside={better.pk}")
    assert client.get(path("evaluation", better.pk) + f"?beside={other.pk}").status_code == 404
    assert client.get(path("evaluation", better.pk) + "?beside=x").status_code == 404


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
    assert "two &lt;seeds&gt;" in read(client, path("experiment-list"))
    Evaluation.objects.filter(pk=better.pk).update(state="running")
    assert f"evaluation {better.pk} is running: wanted it done" in read(client, path("experiment", experiment.pk))


def test_what_the_gate_measures_can_be_read_and_not_stopped(client: Client, project: Project) -> None:
    measured = make_measured(make_worker(project), None, [1, 0])
    assert path("evaluation-pause", measured.pk) not in read(client, path("evaluation", measured.pk))
    client.post(path("evaluation-cancel", measured.pk))
    measured.refresh_from_db()
    assert measured.state == "done"
