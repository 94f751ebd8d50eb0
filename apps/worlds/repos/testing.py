"""The added tasks, and what their tests say of a patch, found out once for the same patch."""

from dataclasses import replace
from typing import Final

from django.conf import settings

from apps.worlds.repositories import VERIFIER
from tentalis.core.swe.repo_tasks import Report, RepoTask, name_unittest
from tentalis.verification.loading import LoadedTask
from tentalis.verification.store import DIRECTORY, TaskStore

SHOWN_BY: Final = frozenset({"pytest", "unittest", "django"})
"""Whose tests may be run by who works on a task: the files that hold them are in the repository."""


def open_store() -> TaskStore:
    return TaskStore(settings.ARTIFACTS / DIRECTORY)


def judge_patch(name: str, patch: str) -> Report:
    """What the tests that decide say."""
    return VERIFIER.verify(open_store().find(name).load(), patch)


def run_shown_tests(name: str, patch: str) -> Report | None:
    """What those tests say that are in the repository as it is and pass there; None where there are none."""
    loaded = open_store().find(name).load()
    task = find_shown(loaded)
    return None if task is None else VERIFIER.verify(LoadedTask(task, loaded.files, loaded.directory), patch)


def find_shown(loaded: LoadedTask) -> RepoTask | None:
    """The task with the tests alone that everybody may see: none that its test patch adds or changes."""
    task = loaded.task
    touched = [path for one in loaded.test_patch for path in one.paths]
    tests = [test for test in task.pass_to_pass if not any(_is_in(test, path) for path in touched)]
    if task.parser not in SHOWN_BY or not tests:
        return None
    return replace(task, test_patch="", fail_to_pass=tests, pass_to_pass=(), gold_patch="")


def _is_in(test: str, path: str) -> bool:
    """Whether the file may hold the test, by pytest's names or by unittest's."""
    if "::" in test:
        return path.endswith(test.partition("::")[0])
    parts, name = path.removesuffix(".py").replace("/", ".").split("."), name_unittest(test)
    return any(name.startswith(".".join([*parts[root:], ""])) for root in range(len(parts)))
