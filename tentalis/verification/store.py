"""Tasks of repositories that were added to an installation: each a directory that never changes."""

import fcntl
import json
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tentalis.core.canon import content_hash
from tentalis.core.swe.repo_tasks import RepoTask, RepoTaskError
from tentalis.verification.harbor import MARK, load_harbor
from tentalis.verification.loading import TASK_FILE, LoadedTask, load_task, read_task

ADMISSION_FILE: Final = "admission.json"
DIRECTORY = "repo_tasks"
"""Below the artifacts."""
SPLITS: Final = ("train", "held_out")
_STAGING: Final = ".staging-"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}@[0-9a-f]{12}")
_HELD: Final = 8
"""Repositories that a process keeps in memory."""
_ISSUES: Final = 10_000
_SHOWN: Final = 80


@dataclass(frozen=True)
class StoredTask:
    """A task that was added.

    Args:
        name: with the first digits of its hash, such as adder-1@3fa9c2e81b07: another text is another task.
        split: `train` or `held_out`.
    """

    name: str
    split: str
    directory: Path

    def load(self) -> LoadedTask:
        return _load_once(self.directory)

    @property
    def task(self) -> RepoTask:
        """Without its repository, which may be a long history."""
        is_foreign = (self.directory / MARK).exists()
        return load_harbor(self.directory).task if is_foreign else read_task(self.directory)

    @property
    def summary(self) -> "TaskSummary":
        try:
            return _summarise(self)
        except RepoTaskError as error:
            return TaskSummary(self.name, self.split, fault=str(error).replace(f"{self.directory}/", ""))

    @property
    def prompt(self) -> str:
        """Its name, and what is asked below it."""
        return f"{self.name}\n\n{_read_issue(self)}"


@dataclass(frozen=True)
class TaskSummary:
    """What a list says of a task.

    Args:
        tests: how many decide; issue: the first line of what is asked, its beginning.
        fault: why it cannot be read; "" where it can.
    """

    name: str
    split: str
    tests: int = 0
    issue: str = ""
    fault: str = ""


class TaskStore:
    """The tasks in a directory. Any number of processes may read and write it; what is added appears as a whole."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def add(self, directory: Path, *, split: str) -> StoredTask:
        """Copy an admitted task, without the tests that its admission dropped.

        Raises:
            RepoTaskError: it was not admitted as it is now, some of it lies elsewhere, or it is there already.
        """
        name, task = _read_admitted(directory)
        stored = StoredTask(name, split, self.directory / split / name)
        staging = self.directory / split / f"{_STAGING}{uuid.uuid4().hex}"
        with locked(self.directory):  # what is added to train on is not added to measure on at the same moment
            if found := next((one for one in self.list_tasks() if one.name == stored.name), None):
                raise RepoTaskError(
                    f"{stored.name} is there already, to {'measure' if found.split != 'train' else 'train'}"
                )
            try:
                shutil.copytree(directory, staging, symlinks=True)
                if (staging / TASK_FILE).exists():
                    (staging / TASK_FILE).write_text(json.dumps(task.to_json(), indent=1) + "\n", encoding="utf-8")
                staging.rename(stored.directory)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
        return stored

    def name_task(self, directory: Path) -> str:
        """What an admitted task will be called. Raises RepoTaskError where it was not admitted as it is now."""
        return _read_admitted(directory)[0]

    def list_tasks(self, split: str = "") -> list[StoredTask]:
        """By name; of one split, or of both."""
        found = [one for each in SPLITS if split in ("", each) for one in self._list(each)]
        return sorted(found, key=lambda one: one.name)

    def find(self, name: str) -> StoredTask:
        """Raises RepoTaskError where there is none of that name."""
        if NAME.fullmatch(name):
            for split in SPLITS:
                if (place := self.directory / split / name).is_dir():
                    return StoredTask(name, split, place)
        raise RepoTaskError(f"wanted a task that was added (`tentalis repo-task list`), found {name!r:.80}")

    def remove(self, name: str) -> None:
        """Raises RepoTaskError where there is none of that name."""
        shutil.rmtree(self.find(name).directory)

    def _list(self, split: str) -> Iterator[StoredTask]:
        with suppress(FileNotFoundError):
            for place in (self.directory / split).iterdir():
                if NAME.fullmatch(place.name):
                    yield StoredTask(place.name, split, place)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """One after the other: who writes in a directory, which is made where there is none."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def open_task(directory: Path) -> LoadedTask:
    """The task of a directory in our form, or in Harbor's. Raises RepoTaskError."""
    if not directory.is_dir():
        raise RepoTaskError(f"wanted a task's directory, found none at {directory}")
    return load_harbor(directory) if (directory / MARK).exists() else load_task(directory)


@lru_cache(maxsize=_HELD)
def _load_once(directory: Path) -> LoadedTask:
    return open_task(directory)


@lru_cache(maxsize=_ISSUES)
def _summarise(stored: StoredTask) -> TaskSummary:
    task = stored.task
    issue = task.issue.strip().partition("\n")[0][:_SHOWN]
    return TaskSummary(stored.name, stored.split, tests=len(task.tests), issue=issue)


@lru_cache(maxsize=_ISSUES)
def _read_issue(stored: StoredTask) -> str:
    return stored.task.issue.strip()


def write_admission(directory: Path, told: Mapping[str, Any]) -> None:
    """Put beside a task what its admission found."""
    (directory / ADMISSION_FILE).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _read_admitted(directory: Path) -> tuple[str, RepoTask]:
    """An admitted task's name from now on, and the task without the tests that were dropped. Raises RepoTaskError."""
    loaded = open_task(directory)
    dropped = _require_admitted(directory, loaded)
    _require_whole(directory, loaded)
    task = replace(
        loaded.task,
        fail_to_pass=[one for one in loaded.task.fail_to_pass if one not in dropped],
        pass_to_pass=[one for one in loaded.task.pass_to_pass if one not in dropped],
    )
    digest = content_hash([replace(loaded, task=task).hash, task.issue])[:12]
    return f"{task.name}@{digest}", task


def _require_admitted(directory: Path, loaded: LoadedTask) -> set[str]:
    """The tests that were dropped. Raises RepoTaskError."""
    command = f"tentalis repo-task admit {directory}"
    try:
        told: Mapping[str, Any] = json.loads((directory / ADMISSION_FILE).read_bytes())
    except (OSError, ValueError):
        raise RepoTaskError(f"{loaded.task.name}: wanted a task that was admitted; do {command}") from None
    if told.get("state") != "admitted":
        words = f"{told.get('state')}: {told.get('reason')}"
        raise RepoTaskError(f"{loaded.task.name}: wanted a task that was admitted, found {words:.300}")
    if told.get("task_hash") != loaded.hash:
        raise RepoTaskError(f"{loaded.task.name}: it is not what was admitted any more; do {command}")
    return {one["test"] for one in told.get("dropped", ())}


def _require_whole(directory: Path, loaded: LoadedTask) -> None:
    """Raises RepoTaskError where a copy of the directory would be without some of the task."""
    within = directory.resolve()
    for place in (directory / loaded.task.repo, *directory.iterdir()):
        if place.is_symlink() or not place.resolve().is_relative_to(within):
            words = f"wanted its repository and files in {directory}, for they are copied, found {place} elsewhere"
            raise RepoTaskError(f"{loaded.task.name}: {words}")
