"""Tasks of own repositories that are handed in: looked at in sandboxes, and added where they may be used."""

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypedDict

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.services import require_admin
from apps.audit.kinds import Kind
from apps.audit.services import move, record_many, write_entry
from apps.base.errors import BadInputError
from apps.base.texts import make_storable
from apps.outbox.services import final_write, held_write
from apps.worlds.models import RepoTaskAdmission
from apps.worlds.repos.testing import open_store
from apps.worlds.repos.uploads import open_upload
from apps.worlds.repositories import VERIFIER
from tentalis.core.swe.admission import Admission
from tentalis.core.swe.patches import PatchError, parse_patch
from tentalis.core.swe.repo_tasks import SCHEMA, Environment, RepoTask, RepoTaskError
from tentalis.core.swe.swe_bench import read_row
from tentalis.verification.admitting import admit_task
from tentalis.verification.archives import is_bundle, unpack_repo
from tentalis.verification.environments import WHEELHOUSE
from tentalis.verification.loading import save_task
from tentalis.verification.store import SPLITS, open_task, write_admission

MOST_ROWS: Final = 200
MOST_WHEELS: Final = 200
PARSERS: Final = ("pytest", "unittest", "django")
SHOWN_CHARS: Final = 2_000
_VERSION: Final = re.compile(r"3\.\d{1,2}")
_WHEEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,200}\.whl")


class HandedIn(TypedDict, total=False):
    """What tasks come with.

    Args:
        repository: sha256 of the file that was sent: a git bundle with the commits of all rows, or an archive of the
            files of one.
        wheels: name -> sha256 of the files that were sent, that their tests want; python: a version; "": the machine's.
        parser: whose tests they are; "": as the repository's are known to be run. Both only of rows of SWE-bench.
    """

    repository: str
    wheels: Mapping[str, str]
    python: str
    parser: str


def ask_admissions(
    *, rows: Sequence[Any], split: str, by: User, repository: str, wheels: Mapping[str, str], python: str, parser: str
) -> list[RepoTaskAdmission]:
    """Take tasks, to be looked at; all of them, or none.

    Args:
        rows: of SWE-bench, or as task.json has them.
        split: what they are added to. Else: see `HandedIn`.
    Raises:
        NotAllowedError: `by` is no admin of the installation, all of whose projects get them.
        BadInputError: naming the field; of rows the line.
    """
    require_admin(by)
    if split not in SPLITS:
        raise BadInputError.at("split", f"wanted one of {', '.join(SPLITS)}, found {split!r:.40}")
    if not 1 <= len(rows) <= MOST_ROWS:
        raise BadInputError.at("text", f"wanted 1 to {MOST_ROWS} rows, found {len(rows):,}")
    file = open_upload(repository, field="repository")
    tasks = _read_rows(rows, _read_environment(wheels, python), parser)
    if len(commits := {one.base_commit for one in tasks}) > 1 and not is_bundle(file):
        words = (
            f"wanted a git bundle for rows of {len(commits)} commits, found an archive, which holds the files of one"
        )
        raise BadInputError.at("repository", words)
    for name, sha256 in {pair for one in tasks for pair in one.environment.wheels.items()}:
        _check_wheel(name)
        open_upload(sha256, field="wheels")
    with transaction.atomic():
        made = RepoTaskAdmission.objects.bulk_create(
            RepoTaskAdmission(
                name=one.name, split=split, task=make_storable(one.to_json()), repository=repository, asked_by=by.handle
            )
            for one in tasks
        )
        record_many(
            write_entry(Kind.REPO_TASK_ASKED, subject=one, by=by.handle, payload={"task": one.name, "split": split})
            for one in made
        )
    return made


def admit(admission_id: int, *, by: str) -> None:
    """Run its tests on the base and on the gold patch, and add it where they tell these apart each time."""
    row = RepoTaskAdmission.objects.get(pk=admission_id)
    if row.state == RepoTaskAdmission.State.QUEUED:
        move(row, RepoTaskAdmission.State.RUNNING, by=by, payload={"task": row.name})
    if row.state != RepoTaskAdmission.State.RUNNING:
        return
    with tempfile.TemporaryDirectory(prefix="tentalis-admit-") as name:
        directory = Path(name) / "task"
        try:
            found = _look_at(row, directory)
        except RepoTaskError as error:
            _end(row, RepoTaskAdmission.State.QUARANTINED, str(error).replace(f"{directory}/", ""), by=by)
            return
        except BadInputError as error:  # a file that it came with went meanwhile
            _end(row, RepoTaskAdmission.State.FAILED, str(error), by=by)
            return
        if not found.is_known:  # its environment, or a sandbox, cannot be had; it was tried some times
            _end(row, RepoTaskAdmission.State.FAILED, found.reason, by=by)
            return
        report = make_storable(found.to_json())
        if not found.is_admitted:
            _end(row, RepoTaskAdmission.State.QUARANTINED, found.reason, by=by, report=report)
            return
        write_admission(directory, report)
        _add(row, directory, report, by=by)


def fail_admission(admission_id: int, *, link: str, reason: str, by: str) -> None:
    """Nothing could be found out of it."""
    row = RepoTaskAdmission.objects.get(pk=admission_id)
    if row.state in {RepoTaskAdmission.State.QUEUED, RepoTaskAdmission.State.RUNNING}:
        _move_to_end(row, RepoTaskAdmission.State.FAILED, reason, by=by)


def find_time_s(admission_id: int) -> float:
    """Seconds that looking at it may take: its own time for each run, and a minute."""
    timeout_s = RepoTaskAdmission.objects.values_list("task__timeout_s", flat=True).get(pk=admission_id)
    return float(RepoTaskAdmission.RUNS * (timeout_s + 60.0) + 600.0)


def _read_environment(wheels: Mapping[str, str], python: str) -> Environment:
    if len(wheels) > MOST_WHEELS:
        raise BadInputError.at("wheels", f"wanted at most {MOST_WHEELS} wheels, found {len(wheels)}")
    for name in wheels:
        _check_wheel(name)
    return Environment(python=python, wheels=dict(wheels))


def _check_wheel(name: str) -> None:
    if not _WHEEL.fullmatch(name):
        raise BadInputError.at(
            "wheels", f"wanted names of wheels, such as six-1.16.0-py2.py3-none-any.whl, found {name!r:.80}"
        )


def _read_rows(rows: Sequence[Any], environment: Environment, parser: str) -> list[RepoTask]:
    tasks: dict[str, RepoTask] = {}
    faults: list[str] = []
    for line, row in enumerate(rows, start=1):
        try:
            task = _read_task(row, environment, parser)
            if task.name in tasks:
                raise RepoTaskError(f"name: wanted each task once, found {task.name} again")
            tasks[task.name] = task
        except RepoTaskError as error:
            faults.append(f"line {line}: {error}")
    if faults:
        raise BadInputError("; ".join(faults[:3]), errors={"text": faults[:100]})
    return list(tasks.values())


def _read_task(row: Any, environment: Environment, parser: str) -> RepoTask:
    """Raises RepoTaskError."""
    if isinstance(row, Mapping) and row.get("schema") == SCHEMA:
        task = replace(RepoTask.from_json(row), repo="repo")
    else:
        task = read_row(row, environment=environment, parser=parser)
    if (python := task.environment.python) and not _VERSION.fullmatch(python):
        raise RepoTaskError(f"python: wanted a version such as 3.11, found {python!r:.80}")
    if task.parser == "script":
        raise RepoTaskError("parser: a task with a script of its own is added where the platform is installed")
    return task


def _look_at(row: RepoTaskAdmission, directory: Path) -> Admission:
    task = RepoTask.from_json(row.task)
    repository = open_upload(row.repository, field="repository")
    wheels = {name: open_upload(sha256, field="wheels") for name, sha256 in task.environment.wheels.items()}
    try:
        touched = [one.old for one in parse_patch(task.gold_patch) if one.old is not None]
    except PatchError as error:
        raise RepoTaskError(f"the gold patch cannot be read: {error}") from None
    files = unpack_repo(repository, task.base_commit, touched=touched)
    save_task(replace(task, base_commit=""), files, directory)
    for name, place in wheels.items():
        (directory / WHEELHOUSE).mkdir(exist_ok=True)
        shutil.copy(place, directory / WHEELHOUSE / name)
    runs = RepoTaskAdmission.objects.filter(pk=row.pk)
    runs.update(runs=0)

    def count() -> None:
        row.runs += 1
        runs.update(runs=row.runs)

    row.runs = 0
    return admit_task(VERIFIER, open_task(directory), on_run=count)


def _end(row: RepoTaskAdmission, state: str, reason: str, *, by: str, report: Mapping[str, Any] | None = None) -> None:
    with final_write([row.pk]):
        _move_to_end(row, state, reason, by=by, report=report)


def _move_to_end(
    row: RepoTaskAdmission, state: str, reason: str, *, by: str, report: Mapping[str, Any] | None = None
) -> None:
    said = make_storable(reason)[:SHOWN_CHARS]
    move(
        row, state, by=by, payload={"task": row.name, "reason": said[:500]},
        reason=said, report=dict(report or {}), added_as="", finished_at=timezone.now(),
    )  # fmt: skip


def _add(row: RepoTaskAdmission, directory: Path, report: Mapping[str, Any], *, by: str) -> None:
    """Its name is written down before it is added: so who is killed in between knows it again."""
    store = open_store()
    name = store.name_task(directory)
    is_there = name in {one.name for one in store.list_tasks()}
    if is_there and row.added_as != name:
        _end(row, RepoTaskAdmission.State.QUARANTINED, f"{name} was added before", by=by, report=report)
        return
    if not is_there:
        with held_write([row.pk]):
            RepoTaskAdmission.objects.filter(pk=row.pk).update(added_as=name)
    with final_write([row.pk]):
        if not is_there:
            store.add(directory, split=row.split)
        move(
            row, RepoTaskAdmission.State.ADMITTED, by=by, payload={"task": name, "split": row.split},
            report=dict(report), added_as=name, finished_at=timezone.now(),
        )  # fmt: skip
