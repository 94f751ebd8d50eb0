"""Ensembles: workers that the gateway asks together."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tentalis.cli.output import AsJson, Project, print_result, print_row, print_rows
from tentalis.cli.session import choose_project, find_by_name, list_rows, open_client
from tentalis.core.field_limits import (
    ENSEMBLE_WAIT_S,
    MAX_ENSEMBLE_MEMBERS,
    MAX_ENSEMBLE_WAIT_S,
    MIN_ENSEMBLE_MEMBERS,
)

if TYPE_CHECKING:
    from tentalis.client import Client, Json

app = typer.Typer(no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Name or number.")]
MEMBER = (
    f"Name of a worker; repeatable, {MIN_ENSEMBLE_MEMBERS} to {MAX_ENSEMBLE_MEMBERS}; where their answers "
    "leave it open a lot decides for each conversation."
)
Wait = Annotated[
    int | None,
    typer.Option(
        "--wait",
        min=1,
        max=MAX_ENSEMBLE_WAIT_S,
        help=f"Seconds in which the others may answer once one of them has; default: {ENSEMBLE_WAIT_S}.",
    ),
]


@app.command("list")
def list_ensembles(project: Project = "", as_json: AsJson = False) -> None:
    """List ensembles."""
    with open_client() as client:
        rows = list_rows(client, client.list_ensembles, project=project)
    print_rows(rows, ("id", "project", "model", "members", "wait_s"), as_json=as_json, empty="no ensembles")


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits, - and _.")],
    member: Annotated[list[str], typer.Option("--member", "-m", help=MEMBER)],
    wait_s: Wait = None,
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Have workers of a project asked together."""
    with open_client() as client:
        made = client.create_ensemble(project=choose_project(client, project), name=name, members=member, wait_s=wait_s)
    print_result(made, f"{made['model']} asks {', '.join(made['members'])}", as_json=as_json)


@app.command()
def show(name: Name, project: Project = "", as_json: AsJson = False) -> None:
    """Show an ensemble."""
    with open_client() as client:
        print_row(find_ensemble(client, name, project), as_json=as_json)


@app.command()
def change(
    name: Name,
    member: Annotated[list[str] | None, typer.Option("--member", "-m", help=f"{MEMBER} All there are to be.")] = None,
    wait_s: Wait = None,
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Change who is asked, or how long is waited for the others."""
    asked = {"members": member, "wait_s": wait_s}
    changes: dict[str, Any] = {field: value for field, value in asked.items() if value}
    if not changes:
        raise typer.BadParameter("say what changes: --member or --wait")
    with open_client() as client:
        row = client.change_ensemble(find_ensemble(client, name, project)["id"], **changes)
    print_result(row, f"{row['model']} asks {', '.join(row['members'])}", as_json=as_json)


@app.command()
def remove(name: Name, project: Project = "") -> None:
    """Have its members asked together no more; they and what they answered stay."""
    with open_client() as client:
        row = find_ensemble(client, name, project)
        client.delete_ensemble(row["id"])
    typer.echo(f"{row['model']} is removed")


def find_ensemble(client: "Client", name: str, project: str) -> "Json":
    """An ensemble by number, or by name where that is unique. Raises typer.BadParameter where it is not."""
    if name.isdigit():
        return client.get_ensemble(int(name))
    return find_by_name(list_rows(client, client.list_ensembles, name=name, project=project), name, "ensemble")
