"""Workers that learn with one, on the pages: joined and parted by the form, and shown with whom they share."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.console.operation_forms import WorkerForm
from apps.console.selectors.workers import choose_worker
from apps.rollouts.models import Batch, Rollout, TrainingUse
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tests.apps.console.test_per_user import put
from tests.factories import make_attempt, make_task, make_worker


@pytest.fixture
def first(project: Project) -> Worker:
    return make_worker(project, "first", "desk", base_model="desk")


@pytest.fixture
def second(first: Worker) -> Worker:
    return make_worker(first.project, "second", "desk", base_model="desk", learns_with=first)


def read(client: Client, page: str, *args: object) -> str:
    return " ".join(client.get(reverse(f"console:{page}", args=["shop", *args])).content.decode().split())


def test_the_form_says_with_whom_a_worker_learns_and_that_it_learns_alone(
    client: Client, first: Worker, alice: User
) -> None:
    client.force_login(alice)
    new = reverse("console:worker-new", args=["shop"])
    assert client.post(new, {"name": "second", "kind": "desk", "learns_with": first.pk}).status_code == 302
    second = Worker.objects.get(name="second")
    assert second.learns_with == first
    change = reverse("console:worker-change", args=["shop", "second"])
    assert f'value="{first.pk}" selected' in client.get(change).content.decode()
    kept = {"base_model": "desk", "is_active": "on"}
    assert client.post(change, kept | {"learns_with": first.pk}).status_code == 302
    assert Worker.objects.get(name="second").learns_with == first
    assert client.post(change, kept).status_code == 302
    assert Worker.objects.get(name="second").learns_with is None


def test_the_form_says_why_two_cannot_learn_together(client: Client, first: Worker, alice: User) -> None:
    client.force_login(alice)
    new = reverse("console:worker-new", args=["shop"])
    fields = {"name": "second", "kind": "desk", "base_model": "other", "learns_with": first.pk}
    refused = client.post(new, fields)
    assert refused.status_code == 400
    assert "wanted the model of first" in refused.content.decode()
    assert not Worker.objects.filter(name="second").exists()


def test_only_whose_line_is_their_own_is_offered(project: Project, first: Worker, second: Worker) -> None:
    make_worker(project, "parrot")

    def offered(worker: Worker | None) -> list[str] | None:
        fields = WorkerForm(project=project, worker=worker, kind="desk").fields
        return [one.name for one in fields["learns_with"].queryset] if "learns_with" in fields else None  # type: ignore[attr-defined]

    assert [offered(one) for one in (None, second, first)] == [["first"], ["first"], None]


def test_pages_say_who_shares_what_with_whom(client: Client, first: Worker, second: Worker, bob: User) -> None:
    adapter = put(first, 1)
    Batch.objects.create(project=first.project, worker=first, number=1, target_tasks=9, task_count=4)
    client.force_login(bob)
    page = read(client, "worker", "second")
    assert "its adapters serve both, and both teach them" in page
    assert reverse("console:adapter", args=["shop", adapter.pk]) in page
    assert "4 of 9 tasks" in page
    page = read(client, "worker", "first")
    assert "Serves and learns from" in page
    assert reverse("console:worker", args=["shop", "second"]) in page
    page = read(client, "worker-list")
    assert "learns with first" in page
    assert page.count(">version 1</a>") == 2


def test_pages_about_a_line_are_about_whose_it_is(project: Project, first: Worker, second: Worker) -> None:
    assert choose_worker(project, "second") == (first, [first])
    assert choose_worker(project, "") == (first, [first])


def test_a_run_says_who_did_its_tasks(client: Client, first: Worker, second: Worker, bob: User) -> None:
    batch = Batch.objects.create(project=first.project, worker=first, number=1, target_tasks=2)
    for worker in (first, second, second):
        task = make_task(worker.project, worker)
        rollout = Rollout.objects.create(
            project=worker.project, worker=worker, task=task, attempt=make_attempt(task), is_usable=True, reward=1.0
        )
        TrainingUse.objects.create(rollout=rollout, batch=batch)
    run = TrainingRun.objects.create(project=first.project, worker=first, batch=batch, recipe={}, recipe_hash="")
    client.force_login(bob)
    page = read(client, "run", run.pk)
    assert "Its tasks were done by" in page
    assert '/second/">second</a> <span class="muted">2</span>' in page
