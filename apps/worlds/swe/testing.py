"""What tests say of a patch of a made-up repository, found out once for the same patch."""

from functools import lru_cache

from apps.worlds.repositories import VERIFIER
from tentalis.core.swe.mini_repos import read_task
from tentalis.core.swe.repo_tasks import Report
from tentalis.verification.loading import LoadedTask


@lru_cache(maxsize=512)
def _load(text: str, *, is_hidden: bool) -> LoadedTask:
    task = read_task(text)
    return LoadedTask(task.as_repo_task() if is_hidden else task.as_shown_task(), task.files)


def judge_patch(text: str, patch: str) -> Report:
    """What the hidden tests say."""
    return VERIFIER.verify(_load(text, is_hidden=True), patch)


def run_shown_tests(text: str, patch: str) -> Report:
    """What the tests that everybody sees say."""
    return VERIFIER.verify(_load(text, is_hidden=False), patch)
