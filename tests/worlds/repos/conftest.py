"""One sandbox host for the tests of added tasks, and two that were added: one to train on, one to measure on."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import override_settings

from apps.worlds.sandboxes import open_client
from tentalis.core.swe.repo_tasks import RepoTask
from tentalis.sandbox.client import start_host
from tentalis.verification.admitting import admit_task
from tentalis.verification.loading import save_task
from tentalis.verification.store import ADMISSION_FILE, DIRECTORY, TaskStore, open_task
from tentalis.verification.verifying import Verifier
from tests.sandbox.conftest import find_obstacle
from tests.verification.repos import FILES, make_cases_task, make_task


def write_task(task: RepoTask, directory: Path) -> Path:
    """A directory as `tentalis repo-task admit` leaves it."""
    save_task(task, FILES, directory)
    found = admit_task(Verifier(open_client), open_task(directory), rounds=1)
    (directory / ADMISSION_FILE).write_text(json.dumps(found.to_json()))
    return directory


@pytest.fixture(scope="package")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaskStore]:
    """The tasks of this installation; at the end nothing may be left in the host."""
    if obstacle := find_obstacle():
        pytest.skip(obstacle)
    directory, artifacts = tmp_path_factory.mktemp("host"), tmp_path_factory.mktemp("artifacts")
    with start_host(directory, warm=1), override_settings(SANDBOXES=directory, ARTIFACTS=artifacts):
        made = TaskStore(artifacts / DIRECTORY)
        own = {"train": make_task(name="calc-1"), "held_out": make_cases_task(name="calc-2", issue="Adding subtracts.")}
        for split, task in own.items():
            made.add(write_task(task, artifacts / task.name), split=split)
        yield made
        assert open_client().describe()["sandboxes"] == 0
