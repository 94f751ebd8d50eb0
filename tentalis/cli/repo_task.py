"""Tasks in repositories, from the command line: on this machine, in sandboxes of its own, or handed in elsewhere."""

import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tentalis.cli.output import AsJson, print_result, print_rows
from tentalis.cli.reading import read_text
from tentalis.cli.session import open_client
from tentalis.core.swe.patches import MAX_PATCH_BYTES
from tentalis.core.swe.repo_tasks import PARSERS, Environment, RepoTaskError
from tentalis.core.swe.swe_bench import read_row, say_needs
from tentalis.sandbox.client import SandboxClient, start_host
from tentalis.verification.admitting import admit_task, find_tests
from tentalis.verification.environments import WHEELHOUSE
from tentalis.verification.loading import TASK_FILE, load_task
from tentalis.verification.store import DIRECTORY, TaskStore, open_task, write_admission
from tentalis.verification.verifying import KeptInFiles, Verifier

app = typer.Typer(no_args_is_help=True)
UNKNOWN_EXIT: Final = 3
COLUMNS: Final = ("name", "split", "tests", "issue")
ADMISSIONS: Final = ("id", "name", "split", "state", "runs", "tests", "added_as", "reason")
UNDER_WAY: Final = frozenset({"queued", "running"})
LOOK_S: Final = 2.0
TaskPlace = Annotated[Path, typer.Argument(help=f"A directory with {TASK_FILE}, or one in Harbor's form.")]


@app.callback()
def root() -> None:
    """Tasks in repositories."""


def verify(
    task: TaskPlace,
    patch: Annotated[str, typer.Option(help="A file with a unified diff; - reads it from standard input.")],
    cache: Annotated[Path | None, typer.Option(help="A directory where what came of patches is kept.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a task's tests on a patch, in a fresh sandbox, and say what it comes to.

    What the patch does to tests or their settings is left out and reported. Exits 0 when it is resolved, 1 when it is
    not, 3 when nothing could be found out.
    """
    loaded = open_task(task)
    text = _read_patch(patch)
    with _verifier(cache) as verifier:
        report = verifier.verify(loaded, text)
    lines = [f"{report.status}: {report.words}", *(f"left out: {path} ({why})" for path, why in report.stripped)]
    print_result(report.to_json(), "\n".join(lines), as_json=as_json)
    raise typer.Exit(0 if report.is_resolved else 1 if report.is_known else UNKNOWN_EXIT)


@app.command()
def admit(
    tasks: Annotated[list[Path], typer.Argument(help=f"Directories with {TASK_FILE}, or in Harbor's form.")],
    find: Annotated[
        bool, typer.Option("--find", help="First put the tests that its files of tests hold into task.json.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find out whether tasks may be used: three times in fresh sandboxes, the base fails and the gold patch passes.

    Writes admission.json into each. A flaky test is dropped; a task that cannot be used is quarantined with the
    reason. Exits 1 when one is, 3 when nothing could be found out of one.
    """
    rows: list[Mapping[str, Any]] = []
    with _verifier(None) as verifier:
        for directory in tasks:
            loaded = open_task(directory)
            if find:
                loaded = replace(loaded, task=find_tests(verifier, loaded))
                text = json.dumps(loaded.task.to_json(), indent=1) + "\n"
                (directory / TASK_FILE).write_text(text, encoding="utf-8")
            found = admit_task(verifier, loaded)
            told = {"task": str(directory), **found.to_json()}
            if not found.is_known:
                told["state"] = "unknown"
            write_admission(directory, told)
            rows.append(told)
    columns = ("task", "state", "fail_to_pass", "pass_to_pass", "leak", "reason")
    print_rows(rows, columns, as_json=as_json, empty="no task")
    if not as_json:
        for row in rows:
            for one in row["dropped"]:
                typer.echo(f"{row['name']}: dropped {one['test']}: {one['why']}")
    states = {row["state"] for row in rows}
    raise typer.Exit(UNKNOWN_EXIT if "unknown" in states else 1 if "quarantined" in states else 0)


@app.command(name="import")
def import_row(
    rows: Annotated[Path, typer.Argument(help="SWE-bench's rows, one JSON object a line.")],
    instance: Annotated[str, typer.Argument(help="instance_id of the row.")],
    out: Annotated[Path, typer.Option(help="The task's directory, made anew.")],
    repo: Annotated[Path | None, typer.Option(help="A clone, or a bundle, that has the row's commit.")] = None,
    wheelhouse: Annotated[Path | None, typer.Option(help="A directory with the wheels its tests want.")] = None,
    python: Annotated[str, typer.Option(help="A version such as 3.11, or an interpreter's path.")] = "",
    parser: Annotated[str, typer.Option(help=f"Whose tests they are: one of {', '.join(PARSERS[:3])}.")] = "",
    as_json: AsJson = False,
) -> None:
    """Make a task of a row of SWE-bench."""
    row = _find_row(rows, instance)
    if repo is None:
        raise RepoTaskError(say_needs(row))
    if out.exists():
        raise RepoTaskError(f"wanted a directory that is not there yet, found {out}")
    wheels = sorted(wheelhouse.glob("*.whl")) if wheelhouse else []
    hashes = {place.name: sha256(place.read_bytes()).hexdigest() for place in wheels}
    task = read_row(row, environment=Environment(python=python, wheels=hashes), parser=parser)
    out.mkdir(parents=True)
    if wheels:
        (out / WHEELHOUSE).mkdir()
        for place in wheels:
            shutil.copy(place, out / WHEELHOUSE)
    if repo.is_dir():
        shutil.copytree(repo, out / task.repo, symlinks=True)
    else:
        shutil.copy(repo, out / task.repo)
    (out / TASK_FILE).write_text(json.dumps(task.to_json(), indent=1) + "\n", encoding="utf-8")
    loaded = load_task(out)
    tests = len(task.tests)
    message = f"{task.name}: {len(loaded.files):,} files, {tests} tests; now: tentalis repo-task admit {out}"
    print_result({"name": task.name, "files": len(loaded.files), "tests": tests}, message, as_json=as_json)


@app.command()
def add(
    tasks: Annotated[list[Path], typer.Argument(help="Directories of tasks that were admitted.")],
    held_out: Annotated[bool, typer.Option("--held-out", help="Only ever measured on, never trained on.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add admitted tasks to this installation: agents can work on them in the environment `repos`.

    Each is copied, with its name and its hash as its name from then on; what is changed behind that is another task.
    """
    store = _open_store()
    split = "held_out" if held_out else "train"
    rows = [asdict(store.add(directory, split=split).summary) for directory in tasks]
    print_rows(rows, COLUMNS, as_json=as_json, empty="no task")


@app.command()
def upload(
    rows: Annotated[Path, typer.Argument(help="JSON lines: SWE-bench's rows, or tasks as task.json has them.")],
    repository: Annotated[
        Path, typer.Option(help="A git bundle that has the rows' commits, or a zip or tar of the files of the one.")
    ],
    wheelhouse: Annotated[Path | None, typer.Option(help="A directory with the wheels their tests want.")] = None,
    python: Annotated[str, typer.Option(help="A version such as 3.11; of SWE-bench's rows.")] = "",
    parser: Annotated[str, typer.Option(help=f"Whose tests they are: one of {', '.join(PARSERS[:3])}.")] = "",
    held_out: Annotated[bool, typer.Option("--held-out", help="Only ever measured on, never trained on.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Wait until all of it is found out.")] = False,
    as_json: AsJson = False,
) -> None:
    """Hand tasks in where we are signed in: the platform admits and adds them, or says why not. Takes an admin.

    With --watch it exits 1 when one is quarantined, 3 when nothing could be found out of one.
    """
    text = read_text(str(rows))
    with open_client() as client:
        wheels = {one.name: client.upload(one) for one in sorted(wheelhouse.glob("*.whl"))} if wheelhouse else {}
        found = client.hand_in_repo_tasks(
            text=text, split="held_out" if held_out else "train", repository=client.upload(repository), wheels=wheels,
            python=python, parser=parser,
        )["results"]  # fmt: skip
        while watch and any(one["state"] in UNDER_WAY for one in found):
            time.sleep(LOOK_S)
            found = [client.get_repo_task_admission(one["id"]) for one in found]
    print_rows(found, ADMISSIONS, as_json=as_json, empty="no task")
    states = {one["state"] for one in found} if watch else set()
    raise typer.Exit(UNKNOWN_EXIT if "failed" in states else 1 if "quarantined" in states else 0)


@app.command()
def admissions(as_json: AsJson = False) -> None:
    """List the tasks that were handed in by REST, the console or `upload`, newest first."""
    with open_client() as client:
        rows = client.list_repo_task_admissions()["results"]
    print_rows(rows, ADMISSIONS, as_json=as_json, empty="no task was handed in")


@app.command("list")
def list_tasks(as_json: AsJson = False) -> None:
    """List the tasks that were added to this installation."""
    rows = [asdict(one.summary) for one in _open_store().list_tasks()]
    columns = (*COLUMNS, "fault") if any(row["fault"] for row in rows) else COLUMNS
    print_rows(rows, columns, as_json=as_json, empty="no task; add one: tentalis repo-task add DIRECTORY")


@app.command()
def remove(name: Annotated[str, typer.Argument(help="As the list says it.")]) -> None:
    """Remove a task that was added. What was learnt from it stays; it cannot be played or verified again."""
    _open_store().remove(name)
    typer.echo(f"removed {name}")


def _open_store() -> TaskStore:
    from tentalis.cli.run import find_artifacts

    return TaskStore(find_artifacts() / DIRECTORY)


def _read_patch(place: str) -> str:
    try:
        content = sys.stdin.buffer.read(MAX_PATCH_BYTES + 1) if place == "-" else Path(place).read_bytes()
    except OSError as error:
        raise RepoTaskError(f"{place}: {error.strerror}") from None
    return content.decode(errors="replace")


def _find_row(place: Path, instance: str) -> Mapping[str, Any]:
    try:
        with place.open(encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                try:
                    row = json.loads(line) if line.strip() else None
                except ValueError:
                    raise RepoTaskError(f"{place}, line {number}: wanted a JSON object, found {line[:60]!r}") from None
                if isinstance(row, dict) and row.get("instance_id") == instance:
                    return row
    except OSError as error:
        raise RepoTaskError(f"{place}: {error.strerror}") from None
    raise RepoTaskError(f"{place}: wanted a row {instance}, found none")


@contextlib.contextmanager
def _verifier(cache: Path | None) -> Iterator[Verifier]:
    with tempfile.TemporaryDirectory(prefix="tentalis-verify-") as name, start_host(Path(name), warm=1):
        client = SandboxClient(Path(name))
        yield Verifier(lambda: client, kept=KeptInFiles(cache) if cache else None)
        client.close()
