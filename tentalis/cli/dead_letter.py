"""Failed work: what failed after its last try, why, and its replay."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tentalis.cli.output import AsJson, Limit, Project, print_result, print_row, print_rows
from tentalis.cli.session import choose_project, list_rows, open_client

app = typer.Typer(no_args_is_help=True)
Kind = Annotated[str, typer.Option(help="Only this kind of work: work, learn, train, adopt…")]
Error = Annotated[str, typer.Option(help="Only those whose last error is of this type, such as ProviderRefusedError.")]


@app.command("list")
def list_dead_letters(
    project: Project = "", kind: Kind = "", error: Error = "", limit: Limit = 50, as_json: AsJson = False
) -> None:
    """List failed work, newest first, with its last error."""
    with open_client() as client:
        rows = list_rows(client, client.list_dead_letters, limit, project=project, kind=kind, error=error)
    if not as_json:
        rows = [{**row, "reason": say_last_error(row)} for row in rows]
    columns = ("id", "project", "kind", "subject_id", "link", "reason", "finished_at")
    print_rows(rows, columns, as_json=as_json, empty="no failed work")


@app.command()
def show(
    dead_letter_id: Annotated[int, typer.Argument(min=1, help="Number of the failed work.")], as_json: AsJson = False
) -> None:
    """Show failed work with the error of every try."""
    with open_client() as client:
        row = client.get_dead_letter(dead_letter_id)
    print_row(row, as_json=as_json)


@app.command()
def replay(
    dead_letter_id: Annotated[int, typer.Argument(min=0, help="Number of the failed work; without: say --all.")] = 0,
    every: Annotated[
        bool, typer.Option("--all", help="All failed work of the project that --kind and --error name.")
    ] = False,
    project: Project = "",
    kind: Kind = "",
    error: Error = "",
    as_json: AsJson = False,
) -> None:
    """Replay failed work from the link it failed at; exit 1 where none could be."""
    if bool(dead_letter_id) == every:
        raise typer.BadParameter("wanted the number of failed work, or --all, found " + ("both" if every else "none"))
    if dead_letter_id and (kind or error):
        raise typer.BadParameter("--kind and --error go with --all")
    with open_client() as client:
        if not every:
            row = client.replay(dead_letter_id)
            print_result(row, f"{row['kind']} of {row['subject_id']} is at work again", as_json=as_json)
            return
        found = {"taken": 0, "refused": 0, "left": 1}
        slug = choose_project(client, project)
        while found["left"]:
            answer = client.replay_all(project=slug, kind=kind or None, error=error or None)
            found = {"taken": found["taken"] + answer["taken"], "refused": answer["refused"], "left": answer["left"]}
            if not answer["taken"]:
                break
    print_result(found, f"{found['taken']} at work again, {found['refused']} at work already", as_json=as_json)
    if not found["taken"]:
        raise typer.Exit(1)


def say_last_error(row: Mapping[str, Any]) -> str:
    last = row["errors"][-1] if row["errors"] else {}
    return f"{last.get('type', '')}: {last.get('message', '')}"
