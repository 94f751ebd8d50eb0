"""What tests say of an episode's files, found out once for the same files."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from apps.worlds.sandboxes import open_client
from tentalis.core.swe.mini_repos import MiniRepo, read_task
from tentalis.core.swe.patches import write_patch
from tentalis.core.swe.repo_tasks import Report
from tentalis.verification.loading import LoadedTask
from tentalis.verification.verifying import KeptInMemory, Verifier

SHOWN_FAILURES: Final = 3
_VERIFIER: Final = Verifier(open_client, kept=KeptInMemory())


@lru_cache(maxsize=512)
def _load(text: str, *, is_hidden: bool) -> LoadedTask:
    task = read_task(text)
    return LoadedTask(task.as_repo_task() if is_hidden else task.as_shown_task(), task.files)


def judge_files(task: MiniRepo, changed: Mapping[str, str]) -> Report:
    """What the hidden tests say of a task's files with these texts in the place of some."""
    return _verify(_load(task.text, is_hidden=True), task, changed)


def run_shown_tests(task: MiniRepo, changed: Mapping[str, str]) -> Report:
    """What the tests that everybody sees say."""
    return _verify(_load(task.text, is_hidden=False), task, changed)


def _verify(loaded: LoadedTask, task: MiniRepo, changed: Mapping[str, str]) -> Report:
    return _VERIFIER.verify(loaded, write_patch(task.files, {path: text.encode() for path, text in changed.items()}))


def show_report(report: Report) -> str:
    """For an agent: how many tests pass, and what is wrong with the first that do not."""
    if not report.outcomes:
        return f"no test ran: {report.words}"
    lines = [f"failed {test.rpartition('.')[2]}" for test, outcome in report.outcomes.items() if outcome != "passed"]
    passed = len(report.outcomes) - len(lines)
    words = [report.words.rpartition(": ")[2]] if lines else []
    return "\n".join([f"{passed} of {len(report.outcomes)} tests pass", *lines[:SHOWN_FAILURES], *words])
