"""Which platform the domain commands talk to, and with which token."""

import os
import stat
import tomllib
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tentalis.platform.home import Home, write_private_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from tentalis.client import Client, Json

DEFAULT_URL = "http://127.0.0.1:8000"


class CredentialsError(Exception):
    """There are none, or their file cannot be used."""


@dataclass(frozen=True)
class Credentials:
    """Args:
    url: of the platform. token: bearer token.
    """

    url: str
    token: str


def credentials_file(home: Home) -> Path:
    """What `login` writes."""
    return home.root / "credentials.toml"


def local_token_file(home: Home) -> Path:
    """What `up` leaves for its own user: a token of the first admin."""
    return home.run / "admin-token"


def find_credentials(home: Home) -> Credentials:
    """Those of the last login; else those of the platform that runs on this home.

    Raises:
        CredentialsError: neither is there, or the file is readable by others or no TOML.
    """
    path = credentials_file(home)
    if path.exists():
        return _read_credentials(path)
    return find_own_credentials(home)


def find_own_credentials(home: Home) -> Credentials:
    """Those of the platform that runs on this home, whoever is signed in to another.

    Raises:
        CredentialsError: none runs, so that whoever listens there may be anybody, or the file is readable by others.
    """
    from tentalis.platform.state import read_state

    state, file = read_state(home), local_token_file(home)
    if state is None or not state.is_alive() or "console_url" not in state.addresses or not file.exists():
        raise CredentialsError("not signed in: run `tentalis login`, or start a platform here with `tentalis up`")
    _require_private(file)
    return Credentials(state.addresses["console_url"], file.read_text(encoding="ascii").strip())


def find_local_url(home: Home) -> str:
    """Where the platform of this home answers, or would by default."""
    from tentalis.platform.state import read_state

    state = read_state(home)
    return (state.addresses.get("console_url") if state else None) or DEFAULT_URL


def save_credentials(home: Home, credentials: Credentials) -> Path:
    """Write them, readable by you alone."""
    import tomli_w

    home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = credentials_file(home)
    write_private_file(path, tomli_w.dumps({"url": credentials.url, "token": credentials.token}))
    return path


def _read_credentials(path: Path) -> Credentials:
    _require_private(path)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CredentialsError(f"{path} cannot be read: {error}; run `tentalis login`") from None
    url, token = document.get("url"), document.get("token")
    if not isinstance(url, str) or not isinstance(token, str):
        raise CredentialsError(f"{path} needs url and token, both texts; run `tentalis login`")
    return Credentials(url, token)


def _require_private(path: Path) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise CredentialsError(f"{path} holds a token and must have mode 0600, found {mode:04o}; run: chmod 600 {path}")


def open_client() -> "Client":
    """A client of the platform we are signed in to."""
    from tentalis.client import Client

    credentials = find_credentials(Home.find(os.environ))
    return Client(credentials.url, credentials.token)


def choose_project(client: "Client", given: str, *, command: str = "") -> str:
    """The project named, else that of the environment's `TENTALIS_PROJECT`, else the only one there is.

    Args:
        command: that takes the slug as an argument, as it is typed; "" of one with `--project`.
    Raises:
        typer.BadParameter: there is none or a choice.
    """
    if named := given or os.environ.get("TENTALIS_PROJECT", ""):
        return named
    slugs = [membership["project"] for membership in client.whoami()["memberships"]]
    if len(slugs) == 1:
        return str(slugs[0])
    how = f"name one: {command} SLUG" if command else "name one with --project or TENTALIS_PROJECT"
    raise typer.BadParameter(f"{how}: {', '.join(slugs[:20]) or 'you are in none yet'}")


def choose_worker(client: "Client", project: str, given: str) -> str:
    """The worker named, else the only one of the project.

    Raises:
        typer.BadParameter: there is none or a choice.
    """
    if given:
        return given
    names = sorted(worker["name"] for worker in client.iterate(client.list_workers, project=project))
    if len(names) == 1:
        return str(names[0])
    raise typer.BadParameter(f"name one with --worker: {', '.join(names[:20]) or f'{project} has none yet'}")


def find_by_name(rows: "list[Json]", name: str, thing: str) -> "Json":
    """The only row of this name.

    Raises:
        typer.BadParameter: there is none, or one in several projects.
    """
    if len(rows) == 1:
        return rows[0]
    if not rows:
        raise typer.BadParameter(f"no {thing} {name!r} that you may see")
    projects = ", ".join(str(row["project"]) for row in rows)
    raise typer.BadParameter(f"{thing} {name!r} is in several projects ({projects}): add --project")


def list_rows(
    client: "Client", list_page: "Callable[..., Json]", most: int | None = None, **filters: object
) -> "list[Json]":
    """The rows of a list, at most so many: `list_rows(client, client.list_tasks, 50, state="done")`.

    Filters that are empty are not sent.
    """
    given = {name: value for name, value in filters.items() if value not in (None, "")}
    if most is not None:
        given["limit"] = min(most, 200)
    return list(islice(client.iterate(list_page, **given), most))
