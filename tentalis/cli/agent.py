"""Agents of your own: a package to begin with, and their places in projects, which are workers."""

from pathlib import Path
from typing import Annotated

import typer

from tentalis.agent_templates import FRAMEWORKS, TemplateError, write_package
from tentalis.cli import worker
from tentalis.cli.output import AsJson, Project, print_result
from tentalis.cli.session import open_client
from tentalis.client.errors import ConflictError

app = typer.Typer(no_args_is_help=True)


app.command("list")(worker.list_workers)
app.command("info")(worker.show)


@app.command()
def init(
    directory: Annotated[Path, typer.Argument(help="Where the package goes; made if it is not there.")],
    template: Annotated[str, typer.Option(help=f"One of {', '.join(FRAMEWORKS)}.")] = "react",
    name: Annotated[str, typer.Option(help="Of the package and of the kind of worker; default: the directory's.")] = "",
) -> None:
    """Make a package with an agent of a framework, its tools and its tests, which installs as a kind of worker."""
    try:
        chosen = name or directory.resolve().name.lower().replace("-", "_")
        files = write_package(directory, name=chosen, framework=template)
    except TemplateError as error:
        raise typer.BadParameter(str(error)) from None
    for path in files:
        typer.echo(str(path))
    typer.echo(f"made {chosen}: pip install -e '{directory}[tests]' && pytest {directory}")


@app.command()
def register(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits, - and _.")],
    kind: Annotated[
        str,
        typer.Option("--kind", "-k", help="That its package adds; outside: it runs elsewhere."),
    ] = "outside",
    base_model: Annotated[str, typer.Option(help="Its model, as the model server knows it.")] = "",
    provider: Annotated[str, typer.Option(help="Name of the model server.")] = "",
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Give an agent its place in a project: a worker, as `tentalis worker create` makes one with all its options."""
    worker.create(name, kind, project=project, base_model=base_model, provider=provider, as_json=as_json)


@app.command()
def unregister(
    name: Annotated[str, typer.Argument(help="Name or number.")], project: Project = "", as_json: AsJson = False
) -> None:
    """Take an agent's place away; one that worked, was measured or learnt is switched off, and keeps its history."""
    with open_client() as client:
        found = worker.find_worker(client, name, project)
        try:
            client.delete_worker(found["id"])
            is_removed = True
        except ConflictError as error:
            if error.code != "worker_kept":
                raise
            client.change_worker(found["id"], is_active=False)
            is_removed = False
    told = {"id": found["id"], "name": found["name"], "removed": is_removed}
    words = f"{found['name']} is removed" if is_removed else f"{found['name']} has a history: it is switched off"
    print_result(told, words, as_json=as_json)
