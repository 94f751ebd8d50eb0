"""Accounts of people, for admins of the installation."""

from typing import TYPE_CHECKING, Annotated

import typer

from tentalis.cli.output import AsJson, print_json, print_rows
from tentalis.cli.session import open_client

if TYPE_CHECKING:
    from tentalis.client import Client, Json

app = typer.Typer(no_args_is_help=True)
Username = Annotated[str, typer.Argument(help="User name.")]


@app.command("list")
def list_users(as_json: AsJson = False) -> None:
    """List everybody who has an account."""
    with open_client() as client:
        rows = list(client.iterate(client.list_users))
    columns = ("id", "username", "is_active", "is_superuser", "may_make_projects", "last_login")
    print_rows(rows, columns, as_json=as_json, empty="nobody")


@app.command()
def create(
    username: Annotated[str, typer.Argument(help="Letters, digits and @ . + - _")],
    email: Annotated[str, typer.Option(help="For people to read; nothing is sent there.")] = "",
    as_json: AsJson = False,
) -> None:
    """Make an account, and print its password, this once. Invite it to a project then: tentalis member invite."""
    with open_client() as client:
        _show_password(client.create_user(username=username, email=email or None), as_json=as_json)


@app.command()
def reset(username: Username, as_json: AsJson = False) -> None:
    """Give somebody another password, and print it, this once. All they are signed in with ends."""
    with open_client() as client:
        _show_password(client.reset_password(find_user(client, username)["id"]), as_json=as_json)


@app.command()
def deactivate(
    username: Username,
    undo: Annotated[bool, typer.Option("--undo", help="Switch it on again.")] = False,
) -> None:
    """Switch an account off: nobody signs in with it, and its tokens open nothing. What they did stays."""
    with open_client() as client:
        user = client.change_user(find_user(client, username)["id"], is_active=undo)
    typer.echo(f"{user['username']} is switched {'on' if user['is_active'] else 'off'}")


def find_user(client: "Client", username: str) -> "Json":
    """An account by name. Raises typer.BadParameter where there is none."""
    for user in client.iterate(client.list_users, username=username):
        return user
    raise typer.BadParameter(f"nobody is called {username!r}")


def _show_password(made: "Json", *, as_json: bool) -> None:
    if as_json:
        print_json(made)
        return
    typer.echo(made["password"])
    typer.echo(f"is the password of {made['username']}; it is not shown again", err=True)
