"""Tasks: submit, look, follow, cancel."""

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tentalis.cli.output import AsJson, Check, Limit, Project, Worker, print_json, print_result, print_row, print_rows
from tentalis.cli.reading import read_bytes, read_text
from tentalis.cli.session import choose_project, list_rows, open_client
from tentalis.core.field_limits import MAX_GROUP

if TYPE_CHECKING:
    from tentalis.client import Client, Json

app = typer.Typer(no_args_is_help=True)
COLUMNS = ("id", "project", "worker", "environment", "state", "score", "prompt")
PACKED = (".parquet", ".zip")
ENDED = ("done", "failed", "cancelled")
LOOK_S = 20
Environment = Annotated[str, typer.Option("--environment", "-e", help="Default: the taskset's, or the worker's own.")]
GroupSize = Annotated[int | None, typer.Option(min=1, max=MAX_GROUP, help="Attempts; default: the project's.")]
TaskId = Annotated[int, typer.Argument(min=1, help="Number of the task.")]


@app.command()
def submit(
    prompt: Annotated[str, typer.Argument(help="What is to be done; @FILE reads a file, - standard input.")],
    project: Project = "",
    environment: Environment = "",
    worker: Worker = "",
    group_size: GroupSize = None,
    reference: Annotated[
        str, typer.Option(help='The right answer, as JSON: 7, "Paris" or {"match": "contains", "value": "Paris"}.')
    ] = "",
    checks: Annotated[
        str, typer.Option(help='Checks, as JSON: {"use": "polite"}, or a list; [] for none of the project\'s.')
    ] = "",
    metadata: Annotated[str, typer.Option(help="A JSON object kept with the task.")] = "",
    parent: Annotated[int | None, typer.Option(min=1, help="Task this one is part of.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The same seed and adapter give the same attempts.")] = None,
    taskset: Annotated[
        str, typer.Option(help="NAME or NAME@VERSION: the task is its item of this prompt, which says what is right.")
    ] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Follow it to its end; says what it waits for.")] = False,
    as_json: AsJson = False,
) -> None:
    """Submit a task."""
    from tentalis.cli.taskset import find_taskset

    with open_client() as client:
        slug = choose_project(client, project)
        item_of = find_taskset(client, slug, taskset) if taskset else None
        usual = str(item_of["environment"]) if item_of else _fit_environment(client, slug, worker)
        task = client.submit_task(
            project=slug,
            prompt=_read_prompt(prompt),
            environment=environment or usual,
            worker=worker or None,
            group_size=group_size,
            reference=read_json("--reference", reference),
            checks=read_json("--checks", checks),
            metadata=read_object("--metadata", metadata),
            parent=parent,
            seed=seed,
            taskset=item_of["id"] if item_of else None,
        )
        if wait:
            typer.echo(f"task {task['id']} is {task['state']} for {task['worker']}", err=True)
            task = follow_task(client, task)
    if as_json:
        print_json(task)
    elif wait:
        score = "" if task["score"] is None else f", score {task['score']:.3g}"
        typer.echo(f"task {task['id']} is {task['state']}{score}: {task['failure'] or task['answer'] or 'no answer'}")
    else:
        typer.echo(f"task {task['id']} is {task['state']} for {task['worker']}")
    if task["state"] in ("failed", "cancelled"):
        raise typer.Exit(1)


@app.command("import")
def import_tasks(
    file: Annotated[
        str, typer.Argument(help="FILE.csv, .jsonl, .txt (a prompt a line), .parquet, .zip (an export); -: input.")
    ],
    project: Project = "",
    environment: Environment = "",
    worker: Worker = "",
    group_size: GroupSize = None,
    form: Annotated[str, typer.Option(help="lines, csv or jsonl; default: by the file's name or beginning.")] = "",
    rows: Annotated[
        str, typer.Option(help="tasks, preferences, sft, kto or stepwise; default: as its first line looks.")
    ] = "",
    check: Check = "",
    as_json: AsJson = False,
) -> None:
    """Submit the tasks of a file, or finished work with its judgement, all of it or none.

    CSV has a header: prompt, and maybe reference, match (exact, contains or number), group_size, seed, checks (as
    JSON); other columns become metadata. A JSON line is an object of prompt, reference, checks, metadata, group_size
    and seed. Finished work
    (preferences, sft, kto, stepwise) comes as .jsonl, .parquet or .zip, in TRL's formats.
    """
    text, usual = read_rows_file(file)
    with open_client() as client:
        slug = choose_project(client, project)
        made = client.import_tasks(
            project=slug,
            text=text,
            form=form or usual,
            rows=rows or None,
            name=Path(file).name if file != "-" else None,
            environment=environment or _fit_environment(client, slug, worker),
            worker=worker or None,
            group_size=group_size,
            checks={"use": check} if check else None,
        )
    _print_made(made, as_json=as_json)


@app.command("from-sessions")
def take_from_sessions(
    session_ids: Annotated[list[int], typer.Argument(min=1, help="Numbers of sessions; see `tentalis session asked`.")],
    project: Project = "",
    environment: Environment = "",
    worker: Worker = "",
    group_size: GroupSize = None,
    as_json: AsJson = False,
) -> None:
    """Submit what was asked first in recorded sessions, all of them or none."""
    with open_client() as client:
        slug = choose_project(client, project)
        made = client.take_from_sessions(
            project=slug,
            sessions=session_ids,
            environment=environment or _fit_environment(client, slug, worker),
            worker=worker or None,
            group_size=group_size,
        )
    _print_made(made, as_json=as_json)


@app.command("list")
def list_tasks(
    project: Project = "",
    state: Annotated[
        str, typer.Option(help="queued, working, scoring, in_review, learning, done, failed, cancelled.")
    ] = "",
    environment: Annotated[str, typer.Option("--environment", "-e")] = "",
    worker: Annotated[str, typer.Option("--worker", "-w")] = "",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List tasks, newest first."""
    with open_client() as client:
        rows = list_rows(
            client, client.list_tasks, limit, project=project, state=state, environment=environment, worker=worker
        )
    print_rows(rows, COLUMNS, as_json=as_json, empty="no tasks")


@app.command()
def show(task_id: TaskId, as_json: AsJson = False) -> None:
    """Show a task with its attempts."""
    with open_client() as client:
        task = client.get_task(task_id)
        attempts = sorted(client.iterate(client.list_attempts, task_id=task_id), key=lambda row: int(row["index"]))
    if as_json:
        print_json({**task, "attempts": attempts})
        return
    print_row(task, as_json=False)
    typer.echo()
    columns = ("index", "id", "state", "outcome", "score", "adapter", "answer")
    print_rows(attempts, columns, as_json=False, empty="no attempts yet")


@app.command()
def cancel(task_id: TaskId, as_json: AsJson = False) -> None:
    """Give a task up."""
    with open_client() as client:
        task = client.cancel_task(task_id)
    print_result(task, f"task {task_id} is {task['state']}", as_json=as_json)


def _print_made(made: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(made)
    elif made.get("import_id"):
        typer.echo(f"{made['count']} rows are being made into tasks by import {made['import_id']}")
    else:
        typer.echo(f"{made['count']} tasks are queued, {made['tasks'][0]} to {made['tasks'][-1]}")


def follow_task(client: "Client", task: "Json") -> "Json":
    """The task when it has ended; meanwhile each change of its state, and whom it waits for, in words."""
    told = task["state"]
    while task["state"] not in ENDED:
        task = client.get_task(task["id"], wait_s=LOOK_S, seen=told)
        if task["state"] != told:
            told = task["state"]
            waits = _say_waiting(client, task) if told == "in_review" else ""
            typer.echo(f"task {task['id']} is {told}{waits}", err=True)
    return task


def _say_waiting(client: "Client", task: "Json") -> str:
    """That a person is waited for, where they judge, until when, and what there is already."""
    reviews = client.list_reviews(task=task["id"], state="open", audience="human", limit=1)["results"]
    if not reviews:
        return ""
    (review,) = reviews
    place = f"{client.url}/p/{task['project']}/reviews/{review['id']}/"
    until = f", until {review['due_at']} at the latest" if review["due_at"] else ""
    return (
        f": a person is to judge it at {place}{until}; its answer is there already "
        f"(`tentalis task show {task['id']}`). Ctrl-C leaves it waiting. "
        f"`tentalis project judges {task['project']}` says who reviews, and changes it"
    )


def _read_prompt(text: str) -> str:
    if text == "-":
        return read_text(text)
    return read_text(text[1:]) if text.startswith("@") else text


def read_rows_file(file: str) -> tuple[str, str]:
    """A file's rows as they are sent, and their form by its name or beginning; "-" is the standard input."""
    from tentalis.core.task_files import guess_form

    if file.lower().endswith(PACKED):
        return base64.b64encode(read_bytes(file)).decode(), "packed"
    text = read_text(file)
    return text, guess_form(file, text)


def read_json(option: str, text: str) -> Any:
    """None for an empty text. Raises typer.BadParameter for what is no JSON."""
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option} must be JSON: {error}") from None


def read_object(option: str, text: str) -> dict[str, Any] | None:
    """None for an empty text. Raises typer.BadParameter for anything but a JSON object."""
    value = read_json(option, text)
    if value is not None and not isinstance(value, dict):
        raise typer.BadParameter(f"{option} must be a JSON object, found {type(value).__name__}")
    return value


def _fit_environment(client: Any, project: str, worker: str) -> str:
    """Where the project's workers, or the named one, are at home; chat where they differ."""
    rows = list_rows(client, client.list_workers, project=project, name=worker, is_active=None if worker else True)
    homes = {str(row["environment"]) for row in rows}
    return homes.pop() if len(homes) == 1 else "chat"
