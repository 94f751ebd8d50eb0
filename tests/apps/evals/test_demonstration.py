"""The loop shown on a project's own tasksets: what comes in, and what it is measured on."""

import json

import pytest

from apps.accounts.models import Project, User
from apps.evals.models import Evaluation
from apps.evals.services import add_items
from apps.feedback.models import RowImport
from apps.pipeline import flow
from apps.pipeline.demonstration import LoopStoppedError, OwnItems, measure_report, start_update
from apps.pipeline.importing import import_all
from apps.rollouts.items import read_item_rows
from apps.rollouts.models import Demonstration
from apps.rollouts.services import build_rollouts
from apps.tasks.models import Task
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tests.fakes import FakeModelServer

pytestmark = pytest.mark.django_db
THINGS = [
    "lamps",
    "kettles",
    "blankets",
    "knives",
    "frames",
    "chairs",
    "clocks",
    "jackets",
    "grinders",
    "shelves",
    "towels",
    "mirrors",
    "bags",
    "boards",
]


def add(project: Project, alice: User, split: str, *numbers: int) -> None:
    told = [
        {"prompt": f"{THINGS[n % 10]} {THINGS[n // 10 + 3]} bought by us: say {n}", "reference": n, "split": split}
        for n in numbers
    ]
    rows = read_item_rows("\n".join(map(json.dumps, told)), form="jsonl", split=split, name="own.jsonl")
    add_items(project=project, name="own", environment="chat", rows=rows, by=alice)


def test_a_projects_own_items_come_in_and_others_are_reported_on(
    project: Project, worker: Worker, server: FakeModelServer, alice: User
) -> None:
    with pytest.raises(LoopStoppedError, match="cannot be measured on items of its own"):
        OwnItems(worker)
    add(project, alice, "held_out", *range(1, 13))
    with pytest.raises(LoopStoppedError, match="wanted checked items to train on"):
        OwnItems(worker)
    add(project, alice, "train", *range(20, 25))
    worker.project.batch_tasks = 4
    ground = OwnItems(worker)
    drawn = [ground.draw(update, seed=3) for update in (1, 2)]
    assert {row.reference for rows in drawn for row in rows} == set(range(20, 25))
    assert len({row.seed for rows in drawn for row in rows}) == 8
    assert drawn[0] == ground.draw(1, seed=3) != ground.draw(1, seed=4)
    report = measure_report(ground, None)
    assert [report.sampled, report.greedy, report.passed] == pytest.approx([8 / 12] * 3)
    assert [bool(prompt and reply) for prompt, reply in report.replies] == [True] * 3
    assert set(Evaluation.objects.values_list("purpose", "played")) == {("report", 12)}


def test_replies_that_are_there_are_imitated_before_anything_is_asked(
    project: Project, worker: Worker, alice: User
) -> None:
    add(project, alice, "held_out", *range(1, 13))
    add(project, alice, "train", *range(20, 25))
    Project.objects.update(gate_policy={"least_solved": 3}, batch_tasks=4)
    Worker.objects.update(base_directory="desk")
    worker = Worker.objects.select_related("project").get()
    for shown in (2, 1):
        bring_replies(project, alice, worker, shown)
        start_update(OwnItems(worker), by=alice, update=1, seed=0, imitation={"epochs": 2})
        asked = Task.objects.exclude(metadata__has_key="imported")
        if shown == 2:
            assert asked.count() == 4, "two replies are too few to learn from: tasks are submitted"
            assert not TrainingRun.objects.exists()
    run = TrainingRun.objects.get()
    assert run.batch is not None
    assert (run.batch.kind, run.batch.task_count) == ("demonstrations", 3)
    assert (run.recipe["algorithm"], run.recipe["epochs"]) == ("sft", 2)
    assert asked.count() == 4
    start_update(OwnItems(worker), by=alice, update=2, seed=0, imitation={})
    assert asked.count() == 8, "what was shown is shown once"
    Demonstration.objects.update(batch=None, source="edit")
    Project.objects.update(recipe={"algorithm": "dpo"})
    worker = Worker.objects.select_related("project").get()
    start_update(OwnItems(worker), by=alice, update=3, seed=0, imitation={})
    assert asked.count() == 12, "who learns by preference learns from edits in pairs"


def bring_replies(project: Project, alice: User, worker: Worker, count: int) -> None:
    rows = [
        {"messages": [{"role": "user", "content": f"Reply {count} {n}?"}, {"role": "assistant", "content": "Gladly."}]}
        for n in range(count)
    ]
    text = "\n".join(map(json.dumps, rows))
    made = flow.import_file(
        project=project, by=alice, text=text, form="jsonl", rows="sft", environment="chat", worker=worker
    )
    assert isinstance(made, RowImport)
    import_all(made.pk)
    build_rollouts(list(Task.objects.filter(state=Task.State.LEARNING).values_list("pk", flat=True)), by="test")
