"""Agents of other frameworks: a package to begin with."""

from pathlib import Path
from typing import Annotated

import typer

from tentalis.agent_templates import FRAMEWORKS, TemplateError, write_package

app = typer.Typer(no_args_is_help=True)


@app.callback()
def root() -> None:
    """Agents of other frameworks."""


@app.command()
def init(
    directory: Annotated[Path, typer.Argument(help="Where the package goes; made if it is not there.")],
    template: Annotated[str, typer.Option(help=f"One of {', '.join(FRAMEWORKS)}.")] = "react",
    name: Annotated[str, typer.Option(help="Of the package and of the kind of worker; default: the directory's.")] = "",
) -> None:
    """Make a package with an agent of a framework, its tools and its tests, which installs as a kind of worker."""
    try:
        chosen = name or directory.resolve().name.lower().replace("-", "_")
        files = write_package(directory, name=chosen, framework=template)
    except TemplateError as error:
        raise typer.BadParameter(str(error)) from None
    for path in files:
        typer.echo(str(path))
    typer.echo(f"made {chosen}: pip install -e '{directory}[tests]' && pytest {directory}")
