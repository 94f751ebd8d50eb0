"""Shadow tests: adapters that repeat a share of the tasks; nobody is shown their answers."""

import typer

from tentalis.cli.adapter import Name, open_adapter
from tentalis.cli.canary import Percent
from tentalis.cli.output import AsJson, print_row

app = typer.Typer(no_args_is_help=True)


@app.command()
def start(name: Name, percent: Percent, as_json: AsJson = False) -> None:
    """Start a shadow test on a share of the worker's new tasks: scored, compared, shown to nobody."""
    with open_adapter(name) as (client, adapter):
        print_row(client.start_shadow(adapter["id"], percent=percent), as_json=as_json)


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show its results against the adapter in service."""
    with open_adapter(name) as (client, adapter):
        print_row(client.get_shadow(adapter["id"]), as_json=as_json)


@app.command()
def stop(name: Name) -> None:
    """Stop a shadow test."""
    with open_adapter(name) as (client, adapter):
        client.stop_shadow(adapter["id"])
    typer.echo(f"{adapter['name']} has no shadow test any more")
