"""Benchmarks and courses in the console: found, installed, run, learnt, and read round by round."""

import json
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter
from apps.evals import catalogue
from apps.evals.catalogue import CatalogueEntry, CatalogueItem
from apps.evals.models import Benchmark, Evaluation, Item, Taskset
from apps.training.models import Course, CourseRound, TrainingRun
from tests.apps.console.builders import sign_in
from tests.factories import make_measured, make_worker

pytestmark = pytest.mark.django_db

BROUGHT = CatalogueEntry(
    name="brought", version="1", about="Letters that somebody brings.", group="choices", licence="MIT",
    template="{question}", grader="choice", columns={"question": "what is asked", "answer": "its letter"},
    read=lambda row: CatalogueItem(prompt=row["question"], reference=row["answer"]),
    sizes={"held_out": 2}, needs=frozenset({"file"}),
)  # fmt: skip


@pytest.fixture
def client(alice: User) -> Client:
    return sign_in(alice)


@pytest.fixture
def brought(monkeypatch: pytest.MonkeyPatch) -> CatalogueEntry:
    known = {**catalogue._list_own(), BROUGHT.name: BROUGHT}
    monkeypatch.setattr(catalogue, "_list_own", lambda: known)
    return BROUGHT


def path(name: str, *args: object) -> str:
    return reverse(f"console:{name}", args=("shop", *args))


def read(client: Client, address: str) -> str:
    return " ".join(client.get(address).content.decode().split())


def make_benchmark(project: Project) -> Benchmark:
    taskset = Taskset.objects.create(project=project, name="numbers", environment="chat")
    checks = [{"check": "grader", "name": "choice", "reference": "A"}]
    Item.objects.bulk_create(
        Item(taskset=taskset, split=split, prompt=f"Say {n}", checks=checks, content_hash=f"{n:064x}", bands=[])
        for n, split in enumerate(["train"] * 6 + ["held_out"] * 12)
    )
    return Benchmark.objects.create(
        project=project, name="numbers", entry="numbers", entry_version="1", taskset=taskset, licence="MIT", source="",
        tries=2,
    )  # fmt: skip


def test_the_catalogue_is_searched_and_what_runs_offline_comes_first(client: Client, brought: CatalogueEntry) -> None:
    found = client.get(path("catalogue") + "?q=somebody+LETTERS").context["found"]
    assert [one.entry.name for one in found] == ["brought"]
    names: list[str] = []
    following: int | None = 0
    while following is not None:
        page = client.get(path("catalogue") + f"?start={following}").context
        names += [one.entry.name for one in page["found"]]
        following = page["following"]
    kept = {entry.name: entry.is_offline for entry in catalogue.list_entries()}
    assert sorted(names) == sorted(kept)
    offline = [kept[name] for name in names]
    assert offline == sorted(offline, reverse=True)
    assert not offline[-1]
    assert "There is no such benchmark" in read(client, path("catalogue") + "?q=nothing-like-it")


def test_one_of_the_catalogue_is_installed_and_run_from_its_page(client: Client, project: Project) -> None:
    make_worker(project, name="helper", kind="desk")
    assert client.post(path("benchmark-install") + "?name=desk", {"seed": 3}).status_code == 302
    benchmark = Benchmark.objects.get()
    assert (benchmark.name, benchmark.source) == ("desk", f"desk {benchmark.entry_version}, seed 3")
    assert f'href="{path("benchmark", benchmark.pk)}"' in read(client, path("catalogue") + "?q=desk")
    page = read(client, path("benchmark", benchmark.pk))
    assert "Nobody ran it yet." in page
    assert path("benchmark-run", benchmark.pk) in page
    client.post(path("benchmark-run", benchmark.pk), {"worker": "helper", "tries": 2, "seed": 0})
    evaluation = Evaluation.objects.get()
    assert (evaluation.benchmark, evaluation.tries, evaluation.state) == (benchmark, 2, "queued")
    assert path("evaluation", evaluation.pk) in read(client, path("benchmark", benchmark.pk))
    assert client.get(path("benchmark-install") + "?name=no-such").status_code == 404
    assert client.get(path("benchmark-install"))["Location"] == path("catalogue")


def test_rows_are_brought_in_a_file_and_a_fault_names_its_line(client: Client, brought: CatalogueEntry) -> None:
    address = path("benchmark-install") + "?name=brought"
    assert "its letter" in read(client, address)
    assert "This field is required." in client.post(address, {}).content.decode()

    def bring(*rows: Any) -> Any:
        text = "\n".join(json.dumps(row) for row in rows)
        return client.post(address, {"file": SimpleUploadedFile("letters.jsonl", text.encode())})

    good = {"question": "Which letter is first? A or B", "answer": "A"}
    refused = bring(good, {"question": "Which is last?"})
    assert refused.status_code == 400
    assert "found none of answer" in refused.content.decode()
    assert not Benchmark.objects.exists()
    assert bring(good).status_code == 302
    made = Benchmark.objects.get()
    assert (made.source, made.taskset.items.get().prompt) == ("letters.jsonl", good["question"])


def test_a_worker_learns_a_benchmark_and_its_course_is_read_paused_and_cancelled(
    client: Client, project: Project
) -> None:
    Project.objects.filter(pk=project.pk).update(has_held_out=True)
    worker = make_worker(project, "learner", "chat", base_model="apprentice")
    benchmark = make_benchmark(project)
    said = {"worker": "learner", "rounds": 3, "tasks": 4, "group_size": 2, "patience": 2, "shown": 0, "seed": 0}
    wrong = client.post(path("course-new", benchmark.pk), said | {"group_size": 1})
    assert wrong.status_code == 400
    assert client.post(path("course-new", benchmark.pk), said).status_code == 302
    course = Course.objects.get()
    assert (course.rounds_wanted, course.benchmark) == (3, benchmark)
    again = client.post(path("course-new", benchmark.pk), said)
    assert "learner is in a course already" in again.content.decode()
    begun = read(client, path("course", course.pk))
    assert "The gate measured nothing of it yet." in begun
    assert "4 new, 0 sometimes right, 0 brought back" in begun
    run = TrainingRun.objects.create(project=project, worker=worker, purpose="manager", recipe={}, state="succeeded")
    course.rounds.update(run=run, is_better=True, words="learner@v1 deployed", results={"1": [2, 1], "2": [2, 2]})
    adapter = Adapter.objects.create(
        project=project, worker=worker, name="learner@v1", version=1, line_version=1, uri="file:///a", manifest={},
        run_id=run.pk,
    )  # fmt: skip
    for model, outcomes in ((None, [0, 0, 0, 1]), (adapter, [0, 1, 1, 1])):
        make_measured(worker, model, outcomes, items="numbers@1/held_out")
    page = read(client, path("course", course.pk))
    assert '<th scope="row" data-value="0">' in page
    assert '<th scope="row" data-value="1">1</th><td class="right" data-value="0.75">75.0' in page
    assert "learner@v1 deployed" in page
    assert "75.0" in page.rpartition("learner@v1")[0]
    assert 'rel="next"' not in page
    further = [CourseRound(course=course, number=n, items=[], choice={}, is_better=False) for n in range(2, 32)]
    CourseRound.objects.bulk_create(further)
    pages = [client.get(path("course", course.pk), {"before": before}).context for before in ("", 16)]
    assert [[point.round for point in one["rounds"]] for one in pages] == [[*range(31, 15, -1)], [*range(15, 0, -1)]]
    assert [one["older"] for one in pages] == [16, None]
    for verb, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        client.post(path(f"course-{verb}", course.pk))
        course.refresh_from_db()
        assert course.state == state
    assert path("course-cancel", course.pk) not in read(client, path("course", course.pk))
    assert "cancelled by user:alice" in read(client, path("course-list"))
    assert path("course", course.pk) in read(client, path("benchmark", benchmark.pk))
