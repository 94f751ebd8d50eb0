"""The audit: check its chain, take it away."""

from pathlib import Path
from typing import Annotated

import typer

from tentalis.cli.output import AsJson, Project, print_json, print_result
from tentalis.cli.session import open_client

app = typer.Typer(no_args_is_help=True)


@app.command()
def verify(as_json: AsJson = False) -> None:
    """Recompute the hash chain; exit 1 when anything was changed."""
    with open_client() as client:
        report = client.verify_audit()
    if as_json:
        print_json(report)
    else:
        verdict = "clean" if report["is_clean"] else "NOT CLEAN"
        told = f": {report['sealed']} entries in the chain, {report['unsealed']} wait for their place"
        typer.echo(verdict + (told if report["sealed"] is not None else ": the whole installation's chain"))
        typer.echo(f"head {report['head']}")
        for fault in report["faults"]:
            typer.echo(f"  {fault}", err=True)
    if not report["is_clean"]:
        raise typer.Exit(1)


@app.command()
def export(
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write, one JSON line an entry.")],
    project: Project = "",
    after: Annotated[int | None, typer.Option(min=0, help="Entries after this one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Save the entries you may read, with their places in the chain and its hashes."""
    with open_client() as client:
        size = client.download("audit/export", out, project=project or None, after=after)
    print_result({"file": str(out), "size_bytes": size}, f"{out}: {size} bytes", as_json=as_json)
