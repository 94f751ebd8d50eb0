"""Tokens: for programs and agents."""

from typing import Annotated

import typer

from tentalis.cli.numbers import read_numbers
from tentalis.cli.output import AsJson, Project, print_json, print_row, print_rows
from tentalis.cli.session import open_client

app = typer.Typer(no_args_is_help=True)
Limits = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        help="e.g. requests_per_minute=60, tokens_per_day=100000, usd_per_month=50; repeatable.",
    ),
]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[
        list[str] | None, typer.Option("--scope", "-s", help="e.g. tasks:read; repeatable; default: all.")
    ] = None,
    project: Project = "",
    agent: Annotated[str, typer.Option(help="An agent of a project you own; default: yourself.")] = "",
    days: Annotated[
        int | None,
        typer.Option(
            min=1, max=365, help="How long it lives; default: 90, or what is left of the token you sign in with."
        ),
    ] = None,
    limit: Limits = None,
    as_json: AsJson = False,
) -> None:
    """Make a token and print it, this once. It ends with the one you are signed in with; the console makes others."""
    with open_client() as client:
        token = client.create_token(
            name=name,
            scopes=scope,
            project=project or None,
            username=agent or None,
            expires_in_days=days,
            limits=read_numbers("--limit", limit) if limit else None,
        )
    if as_json:
        print_json(token)
    else:
        typer.echo(token["token"])
        typer.echo("Keep it: it is not shown again.", err=True)


@app.command("list")
def list_tokens(as_json: AsJson = False) -> None:
    """List your tokens and those of your agents."""
    with open_client() as client:
        rows = list(client.iterate(client.list_tokens))
    columns = ("id", "key_id", "name", "username", "project", "expires_at", "last_used_at", "revoked_at")
    print_rows(rows, columns, as_json=as_json, empty="no tokens")


@app.command()
def revoke(token_id: Annotated[int, typer.Argument(min=1, help="Number of the token.")]) -> None:
    """Revoke a token, and those made with it: refused from the next request on."""
    with open_client() as client:
        client.revoke_token(token_id)
    typer.echo(f"token {token_id} is revoked")


@app.command()
def limit(
    token_id: Annotated[int, typer.Argument(min=1, help="Number of the token.")],
    limit: Limits = None,
    as_json: AsJson = False,
) -> None:
    """Give a token other limits; none takes them all away."""
    with open_client() as client:
        print_row(
            client.change_token(token_id, limits=read_numbers("--limit", limit or [])), as_json=as_json, skip={"scopes"}
        )
