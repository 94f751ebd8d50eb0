"""`tentalis doctor`."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from tentalis.cli.output import AsJson, print_json
from tentalis.platform.doctor import Diagnosis, EffectiveSetting, examine, find_settings_in_effect
from tentalis.platform.home import Home

SIGNS = {True: "ok", False: "WRONG", None: "-"}


def doctor(
    settings_alone: Annotated[
        bool, typer.Option("--settings", help="Only the settings, with what each is for and its default.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the settings in effect and where each came from, check this machine, and exit 1 with what is wrong."""
    if settings_alone:
        found = find_settings_in_effect(Home.find(os.environ), os.environ)
        if as_json:
            print_json([asdict(setting) for setting in found])
        else:
            _print_settings(found)
        return
    diagnosis = examine(Home.find(os.environ), os.environ)
    if as_json:
        document = {"home": str(diagnosis.home), "is_healthy": diagnosis.is_healthy}
        settings = [asdict(setting) for setting in diagnosis.settings]
        print_json(document | {"settings": settings, "findings": [asdict(f) for f in diagnosis.findings]})
    else:
        _print_diagnosis(diagnosis)
    if not diagnosis.is_healthy:
        raise typer.Exit(1)


def _print_settings(found: Sequence[EffectiveSetting]) -> None:
    for setting in found:
        typer.echo(f"{setting.name}={setting.shown}  [{setting.origin}]")
        if setting.help:
            typer.echo(f"    {setting.help}" + (f" (default: {setting.default})" if setting.default else ""))


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
