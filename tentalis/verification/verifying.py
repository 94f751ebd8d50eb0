"""What a patch comes to: its tests run in a fresh sandbox, with the task's own tests and settings in place."""

import base64
import contextlib
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, Final, Protocol

from tentalis.core.canon import content_hash
from tentalis.core.swe.guarding import Candidate, take_candidate
from tentalis.core.swe.patches import PatchError, parse_patch, spell_path
from tentalis.core.swe.repo_tasks import SCRIPTED, Report, RepoTask, Status, TestRun, judge_run, name_unittest
from tentalis.sandbox.client import Result, SandboxClient
from tentalis.sandbox.errors import SandboxError, SandboxLostError, SandboxRefusedError
from tentalis.verification import runner
from tentalis.verification.environments import (
    PACKAGES,
    WHEELHOUSE,
    BuildError,
    Interpreter,
    build_environment,
    find_interpreter,
    hash_environment,
)
from tentalis.verification.loading import LoadedTask

TRIES: Final = 3
"""Of what says nothing of a patch."""
SENT_BYTES: Final = 256 * 2**10
"""A repository up to this size is sent with each run; a larger one becomes an image."""
MOST_IMAGES: Final = 32
"""Each may be as large as a repository, on the host's disk."""
GRACE_S: Final = 5.0
"""Beyond a task's own time, until the sandbox ends what runs its tests."""
STARTED_WITHIN: Final = 60.0
REWARDS: Final = ("/logs/verifier/reward.json", "/logs/verifier/reward.txt")
LIMITS: Final = {
    "memory_bytes": 2**30, "disk_bytes": 256 * 2**20, "processes": 128, "files": 60_000, "output_bytes": 8 * 2**20,
}  # fmt: skip
"""Its output is what became of each test by its name: of the most that a task may have, some 400 bytes each."""
_SOURCE: Final = Path(runner.__file__).read_text(encoding="utf-8")
_KEPT: Final = frozenset(Status) - {Status.BUILD_ERROR, Status.INFRA_ERROR, Status.TIMEOUT}


class Kept(Protocol):
    """Where reports are kept by (environment, task, patch)."""

    def get(self, key: str) -> Report | None: ...

    def put(self, key: str, report: Report) -> None: ...


class KeptInMemory:
    """The last of them."""

    def __init__(self, most: int = 4_096) -> None:
        self._most, self._reports, self._lock = most, dict[str, Report](), Lock()

    def get(self, key: str) -> Report | None:
        return self._reports.get(key)

    def put(self, key: str, report: Report) -> None:
        with self._lock:
            self._reports[key] = report
            while len(self._reports) > self._most:
                del self._reports[next(iter(self._reports))]


class KeptInFiles:
    """One file each, in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, key: str) -> Report | None:
        try:
            return Report.from_json(json.loads((self._directory / f"{key}.json").read_bytes()))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def put(self, key: str, report: Report) -> None:
        """Where there is no room it is not kept, and found out again."""
        staged = self._directory / f".{key}-{uuid.uuid4().hex}"
        with contextlib.suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True)
            staged.write_text(json.dumps(report.to_json()), encoding="utf-8")
            staged.replace(self._directory / f"{key}.json")
            return
        with contextlib.suppress(OSError):
            staged.unlink()


@dataclass(frozen=True)
class _Place:
    """Where tests of a task run: an image, and the files that it does not hold."""

    image: str
    sent: Mapping[str, bytes]
    interpreter: Interpreter


class Verifier:
    """Verifies patches at one sandbox host. Threads may share it, as far as they may the client.

    Args:
        open_client: asked for a client each time, so that one that was lost is replaced.
        most_images: that it keeps at the host; those that were used last.
    """

    def __init__(
        self, open_client: Callable[[], SandboxClient], *, kept: Kept | None = None, most_images: int = MOST_IMAGES
    ) -> None:
        self._open_client = open_client
        self._kept = kept
        self._most_images = most_images
        self._images: dict[str, str] = {}
        self._lock = Lock()

    def verify(self, loaded: LoadedTask, patch: str) -> Report:
        """What a candidate's patch comes to. What says nothing of it is tried again, and is reported as such."""
        task = loaded.task
        try:
            candidate = take_candidate(
                loaded.test_files, parse_patch(patch), guarded=loaded.guarded, sources=task.sources, roots=task.roots
            )
        except PatchError as error:
            return Report(status=Status.PATCH_REJECTED, words=str(error), task_hash=loaded.hash)
        try:
            interpreter = find_interpreter(task.environment.python)
            environment_hash = hash_environment(task.environment, interpreter)
        except BuildError as error:
            return Report(status=Status.BUILD_ERROR, words=str(error), task_hash=loaded.hash)
        told = {spell_path(path): None if new is None else new.hex() for path, new in candidate.changed.items()}
        hashes = {"task_hash": loaded.hash, "environment_hash": environment_hash, "patch_hash": content_hash(told)}
        stripped = [(spell_path(one.path), one.why) for one in candidate.stripped]
        if patch.strip() and not candidate.changed:
            words = f"nothing is left of it: {stripped[0][0]} is {stripped[0][1]}" if stripped else "it changes nothing"
            return Report(status=Status.PATCH_REJECTED, words=words, stripped=stripped, **hashes)  # type: ignore[arg-type]
        key = content_hash([hashes, stripped, _SOURCE])
        if self._kept and (known := self._kept.get(key)):
            return known
        report = self._try(loaded, candidate, interpreter)
        report = replace(report, stripped=stripped, **hashes)  # type: ignore[arg-type]
        if self._kept and report.status in _KEPT:
            self._kept.put(key, report)
        return report

    def _try(self, loaded: LoadedTask, candidate: Candidate, interpreter: Interpreter) -> Report:
        words, status, number = "", Status.INFRA_ERROR, 0
        try:
            client = self._open_client()
        except SandboxError as error:  # it has waited for a host as long as anybody should
            return Report(status=status, words=str(error))
        for number in range(1, TRIES + 1):
            try:
                run = self._run(client, loaded, candidate.changed, interpreter)
                status, words = judge_run(loaded.task, run)
                outcomes = {test: run.outcomes.get(test, "missing") for test in loaded.task.tests}
                return Report(
                    status=status, words=words, tampering=run.tampering, outcomes=outcomes, output=run.output,
                    elapsed_s=run.elapsed_s, tries=number, reward=run.reward,
                )  # fmt: skip
            except BuildError as error:
                status, words = Status.BUILD_ERROR, str(error)
            except SandboxError as error:
                status, words = Status.INFRA_ERROR, str(error)
        return Report(status=status, words=words, tries=number)

    def run_tests(
        self, loaded: LoadedTask, changed: Mapping[str, bytes | None], *, hash_seed: int = 0, is_solved: bool = False
    ) -> TestRun:
        """Run the tests of a task with files of it changed.

        Args:
            is_solved: behind the task's own script that solves it.
        Raises:
            BuildError: its environment cannot be had. SandboxError: nothing is known.
        """
        interpreter = find_interpreter(loaded.task.environment.python)
        client = self._open_client()
        return self._run(client, loaded, changed, interpreter, hash_seed=hash_seed, is_solved=is_solved)

    def _run(
        self,
        client: SandboxClient,
        loaded: LoadedTask,
        changed: Mapping[str, bytes | None],
        interpreter: Interpreter,
        *,
        hash_seed: int = 0,
        is_solved: bool = False,
    ) -> TestRun:
        task = loaded.task
        place = self._prepare(client, loaded, interpreter)
        job = _write_job(loaded, place, changed)
        job["scripts"] = [*loaded.solve[: int(is_solved)], *loaded.scripts]
        argv = [str(interpreter.path), "-s", "-S", "-B", "-c", _SOURCE]
        started = time.monotonic()
        with self._sandbox(client, place.image, task.timeout_s) as sandbox:
            done = client.run(
                sandbox, argv, stdin=json.dumps(job).encode(), cwd="/", timeout_s=task.timeout_s + GRACE_S,
                environment={"PYTHONHASHSEED": str(hash_seed)},
            )  # fmt: skip
        return _read_run(task, done, time.monotonic() - started)

    @contextlib.contextmanager
    def _sandbox(self, client: SandboxClient, image: str, timeout_s: float) -> Iterator[str]:
        lifetime_s = timeout_s + GRACE_S + STARTED_WITHIN
        try:
            sandbox = client.create(image, limits={**LIMITS, "lifetime_s": lifetime_s})
        except SandboxRefusedError as error:  # another host than the one that knew it
            self._forget(image)
            raise SandboxLostError(str(error)) from None
        try:
            yield sandbox
        finally:
            with contextlib.suppress(SandboxLostError):
                client.destroy(sandbox)

    def _forget(self, image: str) -> None:
        with self._lock:
            self._images = {key: known for key, known in self._images.items() if known != image}

    def _prepare(self, client: SandboxClient, loaded: LoadedTask, interpreter: Interpreter) -> _Place:
        environment = loaded.task.environment
        is_sent = sum(map(len, loaded.test_files.values())) <= SENT_BYTES
        key = content_hash(
            [hash_environment(environment, interpreter), loaded.root, "" if is_sent else loaded.hash]
        )  # fmt: skip
        with self._lock:  # one that is being made is waited for
            image = self._images.pop(key, None)
            if image is None:
                with client.stage() as root:
                    (root / loaded.root.lstrip("/")).mkdir(parents=True)
                    wheelhouse = None if loaded.directory is None else loaded.directory / WHEELHOUSE
                    build_environment(environment, interpreter, wheelhouse, root)
                    for path, content in () if is_sent else loaded.test_files.items():
                        place = root / loaded.root.lstrip("/") / path
                        place.parent.mkdir(parents=True, exist_ok=True)
                        place.write_bytes(content)
                    image = client.add_image(root)
            self._images[key] = image  # the newest is the last
            while len(self._images) > self._most_images:
                oldest = self._images.pop(next(iter(self._images)))
                if oldest not in self._images.values():
                    client.drop_image(oldest)
        return _Place(image, loaded.test_files if is_sent else {}, interpreter)


def _write_job(loaded: LoadedTask, place: _Place, changed: Mapping[str, bytes | None]) -> dict[str, Any]:
    task = loaded.task
    written = {**place.sent, **{path: new for path, new in changed.items() if new is not None}}
    gone = [path for path, new in changed.items() if new is None]
    known = {
        f"{loaded.root}/{path}": [
            one for one in _list_looks() if one in loaded.test_files.get(path, b"").decode(errors="replace")
        ]
        for path in changed
    }
    is_unittest = task.parser in {"unittest", "django"}
    return {
        "root": loaded.root,
        "write": {path: base64.b64encode(content).decode() for path, content in written.items() if path not in gone},
        "remove": [path for path in gone if path not in place.sent],
        "guarded": loaded.guarded if task.parser != "cases" else [],
        "timeout_s": task.timeout_s,
        "variables": dict(task.environment.variables),
        "packages": [PACKAGES] if task.environment.wheels else [],
        "parser": task.parser,
        "tests": [name_unittest(one) for one in task.tests] if is_unittest else task.tests,
        "command": list(task.command),
        "plugins": list(task.environment.plugins),
        "roots": list(task.roots),
        "changed": known,
        "extra": {path: base64.b64encode(content).decode() for path, content in loaded.extra.items()},
        "rewards": list(REWARDS),
        "cases": [{"id": one.id, "code": one.code} for one in task.cases],
    }


def _list_looks() -> set[str]:
    looks = {one for words in runner.WATCHED.values() for one in words}
    return looks | {*runner.LOOKED_AT, *runner.CLOSED, "__code__", "ctypes"}


def _read_run(task: RepoTask, done: Result, elapsed_s: float) -> TestRun:
    if done.timed_out:
        return TestRun(timed_out=True, elapsed_s=elapsed_s)
    if done.code >= 128:
        return TestRun(ended=f"who ran its tests was killed by signal {done.code - 128}", elapsed_s=elapsed_s)
    if done.dropped:
        return TestRun(ended="its tests say more than is read", elapsed_s=elapsed_s)
    try:
        told = json.loads(done.out)
        if done.code:
            raise ValueError
    except ValueError:
        words = done.err.decode(errors="replace").strip().splitlines()
        raise BuildError(f"tests could not be started: {words[-1] if words else f'exit code {done.code}'}") from None
    if told["unbuilt"]:
        raise BuildError(f"tests could not be started: {told['unbuilt']}")
    outcomes, words_of = dict(told["outcomes"]), dict(told["words"])
    reward = None
    if task.parser == "script":
        reward, said = read_reward(told["reward"])
        outcomes = {} if reward is None else {SCRIPTED: "passed" if reward == 1.0 else "failed"}
        words_of, told["ended"] = {SCRIPTED: said}, "" if reward is not None else said
    if task.parser == "cases":
        wanted = {one.id: one.wanted for one in task.cases}
        found = {test: words_of.get(test) for test, outcome in outcomes.items() if outcome == "value"}
        outcomes = {test: "passed" if value == wanted.get(test) else "failed" for test, value in found.items()}
    elif task.parser in {"unittest", "django"}:
        told_as = {name_unittest(name): name for name in task.tests}
        outcomes, words_of = (
            {told_as.get(test, test): said for test, said in held.items()} for held in (outcomes, words_of)
        )  # fmt: skip
    return TestRun(
        outcomes=outcomes, words=words_of, tampering=told["tampering"], timed_out=told["timed_out"],
        ended=told["ended"], output=told["output"], elapsed_s=elapsed_s, reward=reward,
    )  # fmt: skip


def read_reward(text: str | None) -> tuple[float | None, str]:
    """What a script wrote, a number from 0 to 1 or an object that holds `reward`, and words on it."""
    if text is None:
        return None, "its script wrote no reward"
    try:
        found = json.loads(text.strip())
        reward = found.get("reward") if isinstance(found, dict) else found
        if isinstance(reward, bool) or not isinstance(reward, int | float) or not 0 <= reward <= 1:
            raise ValueError
    except (ValueError, RecursionError):
        return None, f"its script wrote {text.strip()[:80]!r}, wanted a reward from 0 to 1"
    return float(reward), f"its script gives {reward:g}"
