"""`tentalis doctor`."""

import json
import os
from dataclasses import asdict
from typing import Annotated

import typer

from tentalis.platform.doctor import Diagnosis, examine
from tentalis.platform.home import Home

SIGNS = {True: "ok", False: "WRONG", None: "-"}


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False) -> None:
    """Show the settings in effect and where each came from, check this machine, and exit 1 with what is wrong."""
    diagnosis = examine(Home.find(os.environ), os.environ)
    if as_json:
        document = {"home": str(diagnosis.home), "is_healthy": diagnosis.is_healthy}
        settings = [asdict(setting) for setting in diagnosis.settings]
        typer.echo(json.dumps(document | {"settings": settings, "findings": [asdict(f) for f in diagnosis.findings]}))
    else:
        _print_diagnosis(diagnosis)
    if not diagnosis.is_healthy:
        raise typer.Exit(1)


def _print_diagnosis(diagnosis: Diagnosis) -> None:
    width = max(len(setting.name) for setting in diagnosis.settings)
    typer.echo("Settings")
    for setting in diagnosis.settings:
        typer.echo(f"  {setting.name:<{width}}  {setting.shown or '(unset)'}  [{setting.origin}]")
    typer.echo("\nChecks")
    width = max(len(finding.name) for finding in diagnosis.findings)
    for finding in diagnosis.findings:
        typer.echo(f"  {SIGNS[finding.is_good]:<5}  {finding.name:<{width}}  {finding.words}")
    if wrong := [finding for finding in diagnosis.findings if finding.is_good is False]:
        typer.echo("\nWrong")
        for finding in wrong:
            typer.echo(f"  {finding.name}: {finding.words}")
