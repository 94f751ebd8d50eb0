"""Worlds of this installation: which there are, whether anything may be trained there, and one served to others."""

import json
import os
import sys
from typing import Annotated, Any, Final

import typer

from tentalis.cli.output import AsJson, print_json, print_rows
from tentalis.cli.session import open_client
from tentalis.platform.home import Home
from tentalis.platform.stack import PROJECT_DIRECTORY

app = typer.Typer(no_args_is_help=True)
SIGNS: Final = {True: "ok", False: "WRONG", None: "-"}
COLUMNS: Final = ("name", "title", "has_turns", "may_train", "words")


@app.command("list")
def list_worlds(as_json: AsJson = False) -> None:
    """List the environments that tasks can be in, and whether anything may be trained there."""
    with open_client() as client:
        rows = client.list_worlds()["results"]
    print_rows(rows, COLUMNS, as_json=as_json, empty="no environments")


@app.command()
def doctor(
    name: Annotated[str, typer.Argument(help="Name of the environment.")],
    prompt: Annotated[list[str] | None, typer.Option(help="A task to try, where it makes none up; repeatable.")] = None,
    tasks: Annotated[int, typer.Option(min=1, max=200, help="That are tried.")] = 8,
    acts: Annotated[
        bool, typer.Option("--acts", help="Tries may change something beyond it: it acts outside.")
    ] = False,
    accept: Annotated[
        str, typer.Option(help="Why anything may be trained there whatever is found; it is put on record.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Examine an environment of this installation, and keep what was found.

    Its own right way must be worth 1, and agents that do nothing, guess, talk garbage or tamper nothing. Nothing is
    trained in one that fails, or that is another than was examined. Exits 1 where it fails.
    """
    asked = [f"--tasks={tasks}", *(f"--prompt={one}" for one in prompt or ()), *["--acts"] * acts]
    told = _examine(name, [*asked, f"--accept={accept}"])
    if as_json:
        print_json(told)
    else:
        _print_examination(told)
    if told["passed"] is False and not accept:
        raise typer.Exit(1)


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


def _examine(name: str, asked: list[str]) -> dict[str, Any]:
    from tentalis.platform.keeping.place import Place
    from tentalis.platform.keeping.restoring import manage
    from tentalis.platform.stack import web_environment

    place = Place.find(Home.find(os.environ), os.environ)
    with place.database() as address:
        redis = str(place.settings["REDIS_URL"] or "redis://127.0.0.1:1/0")
        environment = web_environment(
            place.home, place.config, place.environ, {"database_url": address, "redis_url": redis}
        )
        output = manage(environment, "examine_world", name, *asked)
    return dict(json.loads(output.strip().splitlines()[-1]))


def _print_examination(told: dict[str, Any]) -> None:
    checks = told.get("checks", [])
    width = max((len(one["name"]) for one in checks), default=0)
    for one in checks:
        typer.echo(f"  {SIGNS[one['passed']]:<5}  {one['name']:<{width}}  {one['words']}")
    if figures := told.get("figures"):
        shown = ", ".join(f"{value:g} {name.replace('_', ' ')}" for name, value in figures.items())
        typer.echo(f"  {shown}")
    typer.echo(told["words"])
