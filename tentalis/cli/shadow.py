"""Shadows: adapters that answer a share of the work once more, shown to nobody."""

import typer

from tentalis.cli.canary import Name, Percent
from tentalis.cli.output import AsJson, print_row

app = typer.Typer(no_args_is_help=True)


@app.command()
def start(name: Name, percent: Percent, as_json: AsJson = False) -> None:
    """Have an adapter answer a share of its worker's new tasks once more: scored, compared, shown to nobody."""
    from tentalis.cli.adapter import find_adapter
    from tentalis.cli.session import open_client

    with open_client() as client:
        print_row(client.start_shadow(find_adapter(client, name)["id"], percent=percent), as_json=as_json)


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show how it does against what serves."""
    from tentalis.cli.adapter import find_adapter
    from tentalis.cli.session import open_client

    with open_client() as client:
        print_row(client.get_shadow(find_adapter(client, name)["id"]), as_json=as_json)


@app.command()
def stop(name: Name) -> None:
    """Take an adapter out of the shadow."""
    from tentalis.cli.adapter import find_adapter
    from tentalis.cli.session import open_client

    with open_client() as client:
        adapter = find_adapter(client, name)
        client.stop_shadow(adapter["id"])
    typer.echo(f"{adapter['name']} is in no shadow any more")
