"""Data sets: what is public of them, what a file holds, and what projects have, which are tasksets."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tentalis.cli.benchmark import find_entry, send_rows
from tentalis.cli.output import AsJson, Project, print_result, print_row, print_rows
from tentalis.cli.row_reading import read_file_rows
from tentalis.cli.session import choose_project, list_rows, open_client

if TYPE_CHECKING:
    from tentalis.client import Client, Json

app = typer.Typer(no_args_is_help=True)
COLUMNS = ("id", "project", "name", "version", "environment", "benchmark", "grader", "source")
_COLUMN = re.compile(r"\{([^{}]+)\}")
Name = Annotated[str, typer.Argument(help="Of a benchmark of the catalogue, or of the project's own.")]
File = Annotated[str, typer.Argument(help=".jsonl, .json, .csv, .parquet, .arrow, or a directory of `datasets`.")]


@app.command("list")
def list_datasets(project: Project = "", as_json: AsJson = False) -> None:
    """List what projects have: every version, with the benchmark that asks it."""
    with open_client() as client:
        rows = list_rows(client, client.list_datasets, project=project)
    print_rows(rows, COLUMNS, as_json=as_json, empty="no data sets: `tentalis dataset register NAME FILE`")


@app.command()
def pull(
    name: Annotated[str, typer.Argument(help="Of a benchmark of the catalogue whose rows are public.")],
    to: Annotated[str, typer.Option(help="The file that is written; default: NAME.parquet.")] = "",
    config: Annotated[str, typer.Option(help="Another configuration of the data set, such as a subject.")] = "",
    split: Annotated[str, typer.Option(help="Another split.")] = "",
    as_json: AsJson = False,
) -> None:
    """Fetch a benchmark's rows from the Hugging Face hub into a Parquet file. Needs a network."""
    from tentalis.platform.dataset_hub import DatasetHubError, fetch_rows

    with open_client() as client:
        entry = find_entry(client, name)
    if not entry["origin"]:
        raise typer.BadParameter(
            f"{name}: wanted one whose rows are public; its columns are {', '.join(entry['columns'])}"
        )
    repository, known_config, known_split = entry["origin"]
    path = Path(to or f"{name.replace('/', '-')}.parquet")
    try:
        rows = fetch_rows(repository, config or known_config, split or known_split, path)
    except DatasetHubError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    words = f"{path}: {rows:,} rows; licence {entry['licence']}. `tentalis benchmark install {name} --file {path}`"
    print_result({"file": str(path), "rows": rows, "licence": entry["licence"]}, words, as_json=as_json)


@app.command()
def info(name: Name, project: Project = "", as_json: AsJson = False) -> None:
    """Show what a benchmark's rows hold and where they are public, and what the project has of it."""
    with open_client() as client:
        entry = find_entry(client, name)
        there = list_rows(client, client.list_benchmarks, project=project, name=name)
    told = entry | {"installed": [f"{one['project']}: {one['name']}@{one['version']}" for one in there]}
    print_row(told, as_json=as_json)


@app.command()
def inspect(
    file: File,
    name: Annotated[str, typer.Option("--for", help="Of a benchmark of the catalogue that the rows are for.")] = "",
    rows: Annotated[int, typer.Option(min=0, help="So many are shown.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Show what a file holds: rows, columns with their kinds, the first rows; with --for what is missing."""
    found = read_file_rows(file)
    kinds: dict[str, set[str]] = {}
    for row in found:
        for column, value in row.items():
            kinds.setdefault(column, set()).add(_name_kind(value))
    told: dict[str, Any] = {
        "file": file,
        "rows": len(found),
        "columns": {column: ", ".join(sorted(of)) for column, of in kinds.items()},
        "first": [{column: _shorten(value) for column, value in row.items()} for row in found[:rows]],
    }
    if name:
        with open_client() as client:
            wanted = find_entry(client, name)["columns"]
        told["missing"] = [column for column in wanted if column not in kinds]
    print_row(told, as_json=as_json)
    if told.get("missing"):
        raise typer.Exit(1)


def _name_kind(value: Any) -> str:
    names = {str: "text", bool: "truth", int: "number", float: "number", bytes: "bytes", list: "list", dict: "object"}
    return "nothing" if value is None else names.get(type(value), type(value).__name__)


def _shorten(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_shorten)
    return text if len(text) <= 120 else f"{text[:117]}..."


@app.command()
def register(
    name: Name,
    file: Annotated[str, typer.Argument(help="Rows to measure on; or name each split with --split.")] = "",
    splits: Annotated[
        list[str] | None, typer.Option("--split", help="SPLIT=FILE: train, held_out, test, validation.")
    ] = None,
    prompt: Annotated[str, typer.Option(help="Of a data set of your own: a template with {columns} in it.")] = "",
    reference: Annotated[str, typer.Option(help="The column that says what is right.")] = "",
    grader: Annotated[str, typer.Option(help="Who grades: exact, number, choice, f1 ...")] = "exact",
    category: Annotated[str, typer.Option(help="A column that figures are told apart by.")] = "",
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Put the rows of files into a project, all of them or none: as a benchmark, or as a taskset of your own."""
    rows = read_splits(file, splits or ())
    with open_client() as client:
        slug = choose_project(client, project)
        if prompt:
            made = _register_own(client, slug, name, rows, prompt, reference, grader, category)
        else:
            made = send_rows(client, slug, name, rows, origin=Path(file).name if file else ", ".join(splits or ()))
    print_result(made, f"{made['name']} version {made['version']}: {len(rows):,} rows", as_json=as_json)


def read_splits(file: str, splits: "list[str] | tuple[()]") -> list[dict[str, Any]]:
    """The rows of files, each with its split. Raises typer.BadParameter."""
    named: dict[str, str] = {"held_out": file} if file else {}
    for told in splits:
        split, sign, path = told.partition("=")
        if not sign or not path:
            raise typer.BadParameter(f"wanted SPLIT=FILE, found {told!r:.200}")
        side = "train" if split == "train" else "held_out" if split in {"held_out", "test", "validation"} else ""
        if not side:
            raise typer.BadParameter(f"--split: wanted train, held_out, test or validation, found {split!r:.40}")
        if side in named:
            raise typer.BadParameter(f"--split: wanted each split once, found {side} twice")
        named[side] = path
    if not named:
        raise typer.BadParameter("wanted a file, or --split SPLIT=FILE; found neither")
    return [
        {**row, **({"split": split} if len(named) > 1 or split != "held_out" else {})}
        for split, path in named.items()
        for row in read_file_rows(path)
    ]


def _register_own(
    client: "Client",
    project: str,
    name: str,
    rows: list[dict[str, Any]],
    prompt: str,
    reference: str,
    grader: str,
    category: str,
) -> "Json":
    """As the benchmark `own`: any columns, with the template and the grader that are named."""
    if not reference:
        raise typer.BadParameter("--reference: wanted the column that says what is right, found none")
    for place, row in enumerate(rows, start=1):
        if reference not in row:
            raise typer.BadParameter(f"row {place}: wanted the column {reference}, found {', '.join(row)[:200]}")
    told = [
        {
            "prompt": fill_template(prompt, row),
            "reference": row[reference],
            "grader": grader,
            "category": str(row.get(category) or "") if category else "",
            "split": row.get("split") or "held_out",
        }
        for row in rows
    ]
    return send_rows(client, project, f"own/{name}", told, origin=name)


def fill_template(template: str, row: "Json") -> str:
    """A template with each `{column}` that the row has in its place; what a value says is left as it is."""
    return _COLUMN.sub(lambda found: str(row[found[1]]) if found[1] in row else found[0], template)


@app.command()
def remove(
    name: Annotated[str, typer.Argument(help="A taskset, NAME or NAME@VERSION; the newest without.")],
    project: Project = "",
) -> None:
    """Delete a version with its items; one that something was measured on is kept."""
    from tentalis.cli.taskset import find_taskset

    with open_client() as client:
        found = find_taskset(client, choose_project(client, project), name)
        client.remove_dataset(found["id"])
    typer.echo(f"removed {found['name']} version {found['version']}")


@app.command("from-eval")
def take_from_evaluation(
    evaluation: Annotated[int, typer.Argument(help="An evaluation, by number.")],
    name: Annotated[str, typer.Argument(help="The taskset that its items go to.")],
    outcome: Annotated[str, typer.Option(help="all, wrong or right.")] = "all",
    split: Annotated[str, typer.Option(help="held_out or skills.")] = "held_out",
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Make a taskset of an evaluation's items, such as those that were answered wrong."""
    with open_client() as client:
        slug = choose_project(client, project)
        found = client.get_evaluation(evaluation)
        if found["taskset"] is None:
            raise typer.BadParameter(f"wanted an evaluation on a taskset's items, found {evaluation}, of none")
        there = list_rows(client, client.list_tasksets, project=slug, name=name)
        taskset = max(there, key=lambda one: one["version"]) if there else None
        if taskset is None:
            environment = client.get_taskset(found["taskset"])["environment"]
            taskset = client.make_taskset(project=slug, name=name, environment=environment)
        made = client.add_items(taskset["id"], split=split, evaluation=evaluation, outcome=outcome)
    print_result(made, f"{name} version {made['version']}: {made['added']} items added", as_json=as_json)
