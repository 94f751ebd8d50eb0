"""What other packages add to this installation, and why something is not used."""

import json
import os
import subprocess
import sys
from typing import Annotated, Any

import typer

from tentalis.cli.output import AsJson, print_rows
from tentalis.platform.home import Home
from tentalis.platform.stack import PROJECT_DIRECTORY, find_settings

app = typer.Typer(no_args_is_help=True)
COLUMNS = ("group", "name", "package", "is_trusted", "error")


@app.command("list")
def list_plugins(as_json: AsJson = False) -> None:
    """List what other packages add, with why one is not used."""
    print_rows(_ask(), COLUMNS, as_json=as_json, empty="no other package adds anything")


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="Of a plug-in or of its package; empty: all.")] = "",
    as_json: AsJson = False,
) -> None:
    """Try each anew in a process of its own, whatever was found before. Exits 1 where one is not used."""
    rows = [row for row in _ask("--anew") if name in {"", row["name"], row["package"].rpartition(" ")[0]}]
    if name and not rows:
        raise typer.BadParameter(f"no plug-in and no package of one is called {name!r}: tentalis plugin list")
    print_rows(rows, COLUMNS, as_json=as_json, empty="no other package adds anything")
    if any(row["error"] for row in rows):
        raise typer.Exit(1)


def _ask(*arguments: str) -> list[dict[str, Any]]:
    """In a process of the web's kind: registries fill there. Neither database nor broker is asked."""
    nobody = {"database_url": "postgres://nobody@127.0.0.1:1/none", "redis_url": "redis://127.0.0.1:1/0"}
    done = subprocess.run(
        [sys.executable, "-m", "django", "plugins", *arguments],
        env=find_settings(Home.find(os.environ), os.environ, nobody),
        cwd=PROJECT_DIRECTORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        typer.echo(
            done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "plug-ins could not be read", err=True
        )
        raise typer.Exit(1)
    return [json.loads(line) for line in done.stdout.splitlines()]
