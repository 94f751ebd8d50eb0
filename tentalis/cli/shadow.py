"""Shadows: adapters that answer a share of the work once more, shown to nobody."""

import typer

from tentalis.cli.adapter import Name, open_adapter
from tentalis.cli.canary import Percent
from tentalis.cli.output import AsJson, print_row

app = typer.Typer(no_args_is_help=True)


@app.command()
def start(name: Name, percent: Percent, as_json: AsJson = False) -> None:
    """Have an adapter answer a share of its worker's new tasks once more: scored, compared, shown to nobody."""
    with open_adapter(name) as (client, adapter):
        print_row(client.start_shadow(adapter["id"], percent=percent), as_json=as_json)


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show how it does against what serves."""
    with open_adapter(name) as (client, adapter):
        print_row(client.get_shadow(adapter["id"]), as_json=as_json)


@app.command()
def stop(name: Name) -> None:
    """Take an adapter out of the shadow."""
    with open_adapter(name) as (client, adapter):
        client.stop_shadow(adapter["id"])
    typer.echo(f"{adapter['name']} is in no shadow any more")
