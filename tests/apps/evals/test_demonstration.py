"""The loop shown on a project's own tasksets: what comes in, and what it is measured on."""

import json

import pytest

from apps.accounts.models import Project, User
from apps.evals.models import Evaluation
from apps.evals.services import add_items
from apps.pipeline.demonstration import LoopStoppedError, OwnItems, measure_report
from apps.rollouts.items import read_item_rows
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
