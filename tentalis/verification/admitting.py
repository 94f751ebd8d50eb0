"""Admitting a task: its tests on the base and on the gold patch, several times, in fresh sandboxes."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from tentalis.core.swe.admission import ROUNDS, Admission, decide_admission
from tentalis.core.swe.guarding import find_guard
from tentalis.core.swe.leakage import measure_leak
from tentalis.core.swe.patches import PatchError, apply_patch, parse_patch
from tentalis.core.swe.repo_tasks import RepoTask, TestRun
from tentalis.sandbox.errors import SandboxError
from tentalis.verification.environments import BuildError, find_interpreter, hash_environment
from tentalis.verification.loading import LoadedTask
from tentalis.verification.verifying import TRIES, Verifier


def admit_task(
    verifier: Verifier, loaded: LoadedTask, *, rounds: int = ROUNDS, on_run: Callable[[], None] = lambda: None
) -> Admission:
    """Whether a task may be used, and why not. What says nothing of it is tried again, and is not known then.

    Args:
        on_run: called behind each of the two runs of a round.
    """
    task = loaded.task
    refused = Admission(is_admitted=False, reason="", task=task, task_hash=loaded.hash)
    is_scripted = task.parser == "script"
    try:
        patch = parse_patch(task.gold_patch)
        changed = apply_patch(loaded.test_files, patch)
    except PatchError as error:
        return replace(refused, reason=f"the gold patch does not apply: {error}")
    leak = measure_leak(task.issue, patch)
    if not (loaded.solve if is_scripted else changed):
        return replace(refused, reason=f"there is no {'solution' if is_scripted else 'gold patch'}", leak=leak)
    own = {path for one in loaded.test_patch for path in one.paths}
    for path in changed:
        if why := find_guard(path, guarded=own, sources=task.sources):
            return replace(
                refused, leak=leak,
                reason=f"the gold patch touches {path}, which is {why}: name it in `sources` if it is none",
            )  # fmt: skip
    try:
        interpreter = find_interpreter(task.environment.python)
        environment_hash = hash_environment(task.environment, interpreter)
        runs: list[list[TestRun]] = []
        for change, is_solved in (({}, False), (changed, is_scripted)):
            runs.append([])
            for seed in range(rounds):
                runs[-1].append(_run(verifier, loaded, change, seed, is_solved=is_solved))
                on_run()
    except (BuildError, SandboxError) as error:
        return replace(refused, reason=str(error), leak=leak, is_known=False)
    found = decide_admission(task, *runs, leak=leak)
    return replace(found, task_hash=loaded.hash, environment_hash=environment_hash)


def find_tests(verifier: Verifier, loaded: LoadedTask) -> RepoTask:
    """The task with the tests that its files and modules of tests hold, by what they come to on the base and on the
    gold patch: those that pass on the gold patch alone, and on both. Others say nothing.

    Raises:
        BuildError, SandboxError: they could not be run. RepoTaskError: none tells the gold patch from the base.
    """
    changed = apply_patch(loaded.test_files, parse_patch(loaded.task.gold_patch))
    before, behind = (
        {test for test, outcome in verifier.run_tests(loaded, change).outcomes.items() if outcome == "passed"}
        for change in ({}, changed)
    )
    return replace(loaded.task, fail_to_pass=sorted(behind - before), pass_to_pass=sorted(behind & before))


def _run(
    verifier: Verifier, loaded: LoadedTask, changed: Mapping[str, bytes | None], seed: int, *, is_solved: bool
) -> TestRun:
    for number in range(TRIES):
        try:
            return verifier.run_tests(loaded, changed, hash_seed=seed, is_solved=is_solved)
        except (BuildError, SandboxError):
            if number + 1 == TRIES:
                raise
    raise AssertionError("a try is made at least")
