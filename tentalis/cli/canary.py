"""Canaries: adapters tried on a share of the work."""

from typing import Annotated

import typer

from tentalis.cli.adapter import Name, open_adapter
from tentalis.cli.output import AsJson, print_row

app = typer.Typer(no_args_is_help=True)
Percent = Annotated[int, typer.Argument(min=1, max=50, help="Share of the worker's new tasks.")]


@app.command()
def start(name: Name, percent: Percent, as_json: AsJson = False) -> None:
    """Try an adapter on a share of its worker's new tasks."""
    with open_adapter(name) as (client, adapter):
        print_row(client.start_canary(adapter["id"], percent=percent), as_json=as_json)


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show how a trial stands."""
    with open_adapter(name) as (client, adapter):
        print_row(client.get_canary(adapter["id"]), as_json=as_json)


@app.command("raise")
def change_share(name: Name, percent: Percent, as_json: AsJson = False) -> None:
    """Give a trial another share; what was seen so far counts no more."""
    with open_adapter(name) as (client, adapter):
        print_row(client.change_canary(adapter["id"], percent=percent), as_json=as_json)


@app.command()
def stop(name: Name) -> None:
    """End a trial; everything goes to what serves."""
    with open_adapter(name) as (client, adapter):
        client.stop_canary(adapter["id"])
    typer.echo(f"{adapter['name']} is tried no more")
