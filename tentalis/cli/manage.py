"""`tentalis manage`: a command of Django's, on the installation of this machine."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tentalis.platform.home import Home
from tentalis.platform.stack import PROJECT_DIRECTORY, web_environment

if TYPE_CHECKING:
    from tentalis.platform.keeping.place import Place

NO_REDIS = "redis://127.0.0.1:1/0"


def manage(
    arguments: Annotated[
        list[str], typer.Argument(metavar="COMMAND", help="As `manage.py` has them; `help` lists them.")
    ],
) -> None:
    """Run a command of `manage.py` on this installation, with its settings, whether or not it runs.

    All that stands behind it is the command's own; `tentalis manage help COMMAND` says what it takes.
    """
    from tentalis.platform.keeping.place import Place

    place = Place.find(Home.find(os.environ), os.environ)
    with _find_addresses(place) as addresses:
        done = subprocess.run(
            [sys.executable, "-m", "django", *arguments],
            env=web_environment(place.home, place.config, place.environ, addresses),
            cwd=PROJECT_DIRECTORY,
            check=False,
        )
    raise typer.Exit(done.returncode)


@contextmanager
def _find_addresses(place: "Place") -> Iterator[Mapping[str, str]]:
    """Of what runs, else of the servers that are somebody else's; an embedded Postgres is started for so long."""
    from tentalis.platform.state import read_state
    from tentalis.platform.up import running_stack

    state = read_state(place.home)
    if state is not None and state.is_alive():
        yield state.addresses
    elif database_url := place.settings["DATABASE_URL"]:
        yield {"database_url": database_url, "redis_url": place.settings["REDIS_URL"] or NO_REDIS}
    else:
        with running_stack(place.home, place.environ, only=["postgres"]) as stack:
            yield stack.state().addresses
