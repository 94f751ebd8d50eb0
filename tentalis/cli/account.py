"""Signing in to a platform, and out."""

import os
import socket
from pathlib import Path
from typing import Annotated

import typer

from tentalis.cli.output import AsJson, print_json
from tentalis.cli.session import (
    Credentials,
    CredentialsError,
    credentials_file,
    find_credentials,
    find_local_url,
    save_credentials,
)
from tentalis.platform.home import Home


def login(
    url: Annotated[str, typer.Option(help="Address of the platform; default: the one of this home.")] = "",
    username: Annotated[str, typer.Option("--username", "-u", help="Asked for when left out.")] = "",
    token_file: Annotated[
        Path | None, typer.Option(help="Use the token in this file (- for standard input) instead of a password.")
    ] = None,
    code: Annotated[
        str, typer.Option(help="Of your authenticator app, or a recovery code; asked for where it is wanted.")
    ] = "",
) -> None:
    """Sign in, and keep the token in the home directory (mode 0600)."""
    from tentalis.client import Client, NotSignedInError

    home = Home.find(os.environ)
    address = url or find_local_url(home)
    if token_file is not None:
        token = _read_token(token_file)
    else:
        typer.echo(f"signing in to {address}", err=True)
        name = username or typer.prompt("User name")
        password = typer.prompt("Password", hide_input=True)
        with Client(address) as client:
            said = {"username": name, "password": password, "name": f"tentalis on {socket.gethostname()}"[:100]}
            try:
                made = client.login(**said, code=code or None)
            except NotSignedInError as error:
                if error.code != "second_factor_required":
                    raise
                made = client.login(**said, code=typer.prompt("Code of your app, or a recovery code"))
            token = made["token"]
    with Client(address, token) as client:
        who = client.whoami()
    path = save_credentials(home, Credentials(address, token))
    typer.echo(f"signed in to {address} as {who['username']}; the token is in {path}")


def logout() -> None:
    """Revoke the token, and those made with it, and forget it."""
    from tentalis.client import Client, NotSignedInError

    home = Home.find(os.environ)
    path = credentials_file(home)
    if not path.exists():
        raise CredentialsError("not signed in: there is nothing to sign out of")
    credentials = find_credentials(home)
    with Client(credentials.url, credentials.token) as client:
        try:
            client.logout()
        except NotSignedInError:
            typer.echo("the token was no longer valid", err=True)
    path.unlink(missing_ok=True)
    typer.echo(f"signed out of {credentials.url}")


def confirm(
    code: Annotated[str, typer.Option(help="Of your authenticator app, or a recovery code, instead of asking.")] = "",
) -> None:
    """Prove who you are, for what takes a fresh proof: promoting, keys, members, erasing."""
    from tentalis.client import BadRequestError, Client

    credentials = find_credentials(Home.find(os.environ))
    with Client(credentials.url, credentials.token) as client:
        if code:
            held = client.confirm(code=code)
        else:
            try:
                held = client.confirm(password=typer.prompt("Password", hide_input=True))
            except BadRequestError as error:
                if "code" not in error.errors:
                    raise
                held = client.confirm(code=typer.prompt("Code of your app, or a recovery code"))
    typer.echo(f"confirmed until {held['confirmed_until']}")


def whoami(as_json: AsJson = False) -> None:
    """Show who you are on the platform, and your projects."""
    from tentalis.client import Client

    credentials = find_credentials(Home.find(os.environ))
    with Client(credentials.url, credentials.token) as client:
        who = client.whoami()
    if as_json:
        print_json({"url": credentials.url, **who})
        return
    typer.echo(f"{who['username']} at {credentials.url}; the token ends {who['token_expires_at'] or 'never'}")
    for membership in who["memberships"]:
        typer.echo(f"  {membership['role']:<9} {membership['project']}")


def _read_token(path: Path) -> str:
    if str(path) == "-":
        return typer.get_text_stream("stdin").readline().strip()
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} cannot be read: {error}") from None
