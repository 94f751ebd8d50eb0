"""Tasksets: named, versioned sets of tasks that workers are measured on."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tentalis.cli.output import AsJson, Check, Limit, Project, print_result, print_row, print_rows
from tentalis.cli.session import choose_project, list_rows, open_client
from tentalis.cli.task import read_rows_file

if TYPE_CHECKING:
    from tentalis.client import Client, Json

app = typer.Typer(no_args_is_help=True)
COLUMNS = ("id", "project", "name", "version", "environment", "origin", "frozen_at")
Name = Annotated[str, typer.Argument(help="Its name, whose newest version is meant, or NAME@VERSION.")]
Split = Annotated[str, typer.Option(help="train, held_out or skills: of items whose row names none.")]


@app.command("list")
def list_tasksets(project: Project = "", as_json: AsJson = False) -> None:
    """List tasksets, every version."""
    with open_client() as client:
        rows = list_rows(client, client.list_tasksets, project=project)
    print_rows(rows, COLUMNS, as_json=as_json, empty="no tasksets")


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and hyphens.")],
    environment: Annotated[str, typer.Option("--environment", "-e")] = "chat",
    about: Annotated[str, typer.Option(help="What it is, for people.")] = "",
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Make an empty taskset."""
    with open_client() as client:
        slug = choose_project(client, project)
        made = client.make_taskset(project=slug, name=name, environment=environment, about=about or None)
    print_result(made, f"made taskset {name}", as_json=as_json)


@app.command()
def add(
    name: Name,
    file: Annotated[
        str, typer.Argument(help="FILE.csv, .jsonl, .txt, .parquet or .zip; -: input; empty: one of the options.")
    ] = "",
    split: Split = "held_out",
    check: Check = "",
    tasks: Annotated[list[int] | None, typer.Option("--task", help="Tasks of the project, by number.")] = None,
    sessions: Annotated[list[int] | None, typer.Option("--session", help="Sessions, by number.")] = None,
    count: Annotated[int | None, typer.Option(min=1, help="So many that the environment makes up.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of those.")] = None,
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Add items, all of them or none; to a frozen taskset's next version.

    A row has a prompt, and maybe reference, seed, split, weight, checks and messages.
    """
    text, form = read_rows_file(file) if file else (None, None)
    with open_client() as client:
        made = client.add_items(
            find_taskset(client, choose_project(client, project), name)["id"],
            split=split,
            text=text,
            form=form,
            name=Path(file).name if file not in ("", "-") else None,
            checks={"use": check} if check else None,
            tasks=tasks or None,
            sessions=sessions or None,
            count=count,
            seed=seed,
        )
    repeated = f", {made['repeated']} were there already" if made["repeated"] else ""
    words = f"{name} version {made['version']}: {made['added']} items added{repeated}"
    print_result(made, words, as_json=as_json)


@app.command()
def show(name: Name, split: str = "", limit: Limit = 20, project: Project = "", as_json: AsJson = False) -> None:
    """Show a taskset's items."""
    with open_client() as client:
        taskset = find_taskset(client, choose_project(client, project), name)
        rows = client.list_items(taskset["id"], split=split or None, limit=limit)["results"]
    if not as_json:
        print_row(taskset, as_json=False)
    print_rows(rows, ("id", "split", "weight", "source", "prompt"), as_json=as_json, empty="no items")


@app.command("split")
def split_taskset(
    name: Name,
    shares: Annotated[list[str], typer.Argument(help="SPLIT=PERCENT, together 100: train=80 held_out=20.")],
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same sides.")] = 0,
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Put each item on a side by a hash of its words; nearly the same goes together."""
    told: dict[str, int] = {}
    for share in shares:
        side, _, percent = share.partition("=")
        if not percent.isdecimal() or side in told:
            raise typer.BadParameter(f"wanted each split once, such as train=80; found {share!r}")
        told[side] = int(percent)
    with open_client() as client:
        counts = client.split_taskset(
            find_taskset(client, choose_project(client, project), name)["id"], shares=told, seed=seed
        )
    print_row(counts, as_json=as_json)


@app.command()
def freeze(name: Name, project: Project = "", as_json: AsJson = False) -> None:
    """Let this version never change again; a change of it makes the next."""
    with open_client() as client:
        frozen = client.freeze_taskset(find_taskset(client, choose_project(client, project), name)["id"])
    print_result(frozen, f"{frozen['name']} version {frozen['version']} is frozen", as_json=as_json)


def find_taskset(client: "Client", slug: str, name: str) -> "Json":
    """The version of that name, or the newest."""
    name, _, version = name.partition("@")
    rows = list_rows(client, client.list_tasksets, project=slug, name=name)
    found = [row for row in rows if not version or str(row["version"]) == version]
    if not found:
        raise typer.BadParameter(f"{slug} has no taskset {name}{'@' * bool(version)}{version}")
    return max(found, key=lambda row: row["version"])
