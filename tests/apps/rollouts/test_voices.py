"""What one reviewer may weigh in a batch: held down where several judged, never where one did, and never by itself."""

import json
from pathlib import Path

import pytest
from pytest_django import Settings

from apps.accounts.models import Project
from apps.feedback.models import Feedback
from apps.rollouts import services
from apps.rollouts.files import iterate_batch, write_batch
from apps.rollouts.models import Batch
from apps.rollouts.voices import find_voices
from tests.factories import make_judged_task, make_project

pytestmark = pytest.mark.django_db


def fill(project: Project, authors: list[str]) -> Batch:
    """A batch of one task for each author, who scored it."""
    for author in authors:
        task = make_judged_task(project, group_size=2)
        for name in author.split("+"):
            Feedback.objects.create(project=project, task=task, source="human", author=f"user:{name}", score=1.0)
        services.build_rollouts([task.pk], by="ledger")
    return Batch.objects.get()


def weigh(batch: Batch, share: float) -> list[float]:
    return [record.weight for record in iterate_batch(batch, most_voice_share=share)]


def test_who_judged_most_of_a_batch_decides_no_more_than_the_share() -> None:
    batch = fill(make_project(batch_tasks=20), ["bob"] * 6 + ["cleo", "dora"])
    assert weigh(batch, 1.0) == [1.0] * 16
    weights = weigh(batch, 0.5)
    assert sum(weights[:12]) == pytest.approx(sum(weights[12:]), rel=5e-3)
    assert weights[12:] == [1.0] * 4


def test_a_lone_manager_is_not_held_down() -> None:
    assert weigh(fill(make_project(batch_tasks=20), ["bob"] * 3), 0.1) == [1.0] * 6


def test_two_who_judged_one_task_share_its_weight() -> None:
    batch = fill(make_project(batch_tasks=20), ["bob+cleo"])
    assert list(find_voices(batch).values()) == [{"user:bob": 0.5, "user:cleo": 0.5}] * 2


def test_what_nobody_said_is_a_voice_that_is_not_held_down() -> None:
    project = make_project(batch_tasks=20)
    for _ in range(4):
        task = make_judged_task(project, group_size=2)
        services.build_rollouts([task.pk], by="ledger")
    batch = fill(project, ["bob"])
    assert weigh(batch, 0.2) == [1.0] * 10
    assert {voice for parts in find_voices(batch).values() for voice in parts} > {"user:bob"}


def test_the_file_of_a_batch_has_the_weights_and_is_the_same_again(settings: Settings, tmp_path: Path) -> None:
    settings.ARTIFACTS = tmp_path
    batch = fill(make_project(batch_tasks=20), ["bob"] * 3 + ["cleo"])
    told = write_batch(batch, most_voice_share=0.6)
    assert write_batch(batch, most_voice_share=0.6) == told != write_batch(batch)
    weights = [json.loads(line)["weight"] for line in Path(told[0].removeprefix("file://")).read_bytes().splitlines()]
    assert weights == weigh(batch, 0.6)
