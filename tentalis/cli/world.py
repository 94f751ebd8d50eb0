"""Worlds of this installation."""

import os
import sys
from typing import Annotated

import typer

from tentalis.platform.home import Home
from tentalis.platform.stack import PROJECT_DIRECTORY

app = typer.Typer(no_args_is_help=True)


@app.callback()
def root() -> None:
    """The environments that agents work in."""


@app.command()
def serve(
    world: Annotated[str, typer.Argument(help="Its name.")],
    host: Annotated[str, typer.Option(help="Address to bind. Nobody has to sign in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to bind; 0: any. The first line says which.")] = 0,
) -> None:
    """Serve a world as OpenEnv does, in the foreground: its clients play episodes and see what each is worth.

    A world that runs programs asks the sandbox host of `tentalis up`.
    """
    environment = os.environ | {"TENTALIS_HOME": str(Home.find(os.environ).root)}
    environment.setdefault("DJANGO_SETTINGS_MODULE", "tentalis.settings.dev")
    argv = [sys.executable, "-m", "django", "serve_world", world, "--host", host, "--port", str(port)]
    os.chdir(PROJECT_DIRECTORY)
    os.execve(sys.executable, argv, environment)  # noqa: S606 - this process becomes the server
