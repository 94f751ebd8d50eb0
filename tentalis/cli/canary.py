"""Canaries: adapters that do a share of the new tasks."""

from typing import Annotated

import typer

from tentalis.cli.adapter import Name, open_adapter
from tentalis.cli.output import AsJson, print_row
from tentalis.core.field_limits import MAX_TRIED_PERCENT

app = typer.Typer(no_args_is_help=True)
Percent = Annotated[int, typer.Argument(min=1, max=MAX_TRIED_PERCENT, help="Share of the worker's new tasks.")]


@app.command()
def start(name: Name, percent: Percent, as_json: AsJson = False) -> None:
    """Start a canary on a share of the worker's new tasks."""
    with open_adapter(name) as (client, adapter):
        print_row(client.start_canary(adapter["id"], percent=percent), as_json=as_json)


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show a canary's results so far."""
    with open_adapter(name) as (client, adapter):
        print_row(client.get_canary(adapter["id"]), as_json=as_json)


@app.command("raise")
def change_share(name: Name, percent: Percent, as_json: AsJson = False) -> None:
    """Change the share of a canary; its results start anew."""
    with open_adapter(name) as (client, adapter):
        print_row(client.change_canary(adapter["id"], percent=percent), as_json=as_json)


@app.command()
def stop(name: Name) -> None:
    """Stop a canary; all tasks go to the adapter in service."""
    with open_adapter(name) as (client, adapter):
        client.stop_canary(adapter["id"])
    typer.echo(f"{adapter['name']} has no canary any more")
