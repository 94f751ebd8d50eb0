"""Adapters: what was learnt, its verdicts, and what serves."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tentalis.cli.output import AsJson, Limit, Project, print_json, print_row, print_rows

if TYPE_CHECKING:
    from tentalis.client import Client, Json

app = typer.Typer(no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Name or number of the adapter.")]


@app.command("list")
def list_adapters(
    project: Project = "",
    worker: Annotated[str, typer.Option("--worker", "-w")] = "",
    state: Annotated[str, typer.Option(help="candidate, verified, deployed, retired or refused.")] = "",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List adapters, newest first."""
    from tentalis.cli.session import open_client

    filters = {"project": project, "worker": worker, "state": state}
    with open_client() as client:
        given = {name: value for name, value in filters.items() if value}
        rows = list(islice(client.iterate(client.list_adapters, limit=min(limit, 200), **given), limit))
    columns = ("id", "name", "state", "is_anchor", "parent", "run", "created_at")
    print_rows(rows, columns, as_json=as_json, empty="no adapters")


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show an adapter, its verdicts and where it comes from."""
    from tentalis.cli.session import open_client

    with open_client() as client:
        adapter = find_adapter(client, name)
        verdicts = list(client.iterate(client.list_verdicts, adapter_id=adapter["id"]))
        lineage = client.get_provenance(adapter["id"])["lineage"]
    if as_json:
        print_json({**adapter, "verdicts": verdicts, "lineage": lineage})
        return
    print_row(adapter, as_json=False, skip={"manifest"})
    typer.echo()
    print_rows(verdicts, ("question", "outcome", "words"), as_json=False, empty="no verdicts yet")
    typer.echo()
    print_rows(lineage, ("adapter", "run", "rollouts", "tasks", "authors"), as_json=False, empty="")


@app.command()
def promote(name: Name, as_json: AsJson = False) -> None:
    """Put an adapter into service by your decision."""
    from tentalis.cli.session import open_client

    with open_client() as client:
        _tell(client.promote_adapter(find_adapter(client, name)["id"]), as_json=as_json)


@app.command()
def rollback(
    worker: Annotated[str, typer.Argument(help="Name or number of the worker.")],
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Return a worker to what served it before."""
    from tentalis.cli.session import open_client
    from tentalis.cli.worker import find_worker

    with open_client() as client:
        _tell(client.roll_back_worker(find_worker(client, worker, project)["id"]), as_json=as_json)


@app.command()
def export(
    name: Name,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File; default: NAME.zip here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Save an adapter as a zip in PEFT's layout, with its manifest."""
    from tentalis.cli.session import open_client

    with open_client() as client:
        adapter = find_adapter(client, name)
        target = out or Path(f"{adapter['name']}.zip")
        size = client.download(f"adapters/{adapter['id']}/download", target)
    if as_json:
        print_json({"file": str(target), "size_bytes": size, "sha256": adapter["sha256"]})
    else:
        typer.echo(f"{target}: {size} bytes")


def find_adapter(client: "Client", name: str) -> "Json":
    """An adapter by number or name. Raises typer.BadParameter where there is none."""
    from tentalis.cli.session import find_by_name

    if name.isdigit():
        return client.get_adapter(int(name))
    return find_by_name(list(client.iterate(client.list_adapters, name=name)), name, "adapter")


def _tell(deployment: "Json", *, as_json: bool) -> None:
    if as_json:
        print_json(deployment)
    else:
        typer.echo(f"{deployment['worker']} is served by {deployment['adapter'] or 'the base model'}")
