"""Rollouts: look, and take away."""

from pathlib import Path
from typing import Annotated

import typer

from tentalis.cli.output import AsJson, Limit, Project, print_result, print_rows
from tentalis.cli.session import list_rows, open_client

app = typer.Typer(no_args_is_help=True)
Batch = Annotated[int | None, typer.Option(min=1, help="Of this batch only.")]


@app.command("list")
def list_rollouts(
    project: Project = "",
    batch: Batch = None,
    unusable: Annotated[bool, typer.Option("--unusable", help="Only those that train nothing, with why.")] = False,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List rollouts, newest first."""
    with open_client() as client:
        is_usable = False if unusable else None
        rows = list_rows(client, client.list_rollouts, limit, project=project, batch=batch, is_usable=is_usable)
    columns = ("id", "task", "adapter", "reward", "reward_source", "batch", "is_usable", "unusable_reason")
    print_rows(rows, columns, as_json=as_json, empty="no rollouts")


@app.command()
def export(
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")],
    project: Project = "",
    batch: Batch = None,
    form: Annotated[str, typer.Option("--format", "-f", help="jsonl or parquet.")] = "jsonl",
    as_json: AsJson = False,
) -> None:
    """Save the usable rollouts, as the trainer reads them."""
    if form not in {"jsonl", "parquet"}:
        raise typer.BadParameter(f"--format is jsonl or parquet, found {form!r}")
    with open_client() as client:
        size = client.download("rollouts/export", out, project=project or None, batch=batch, format=form)
    print_result({"file": str(out), "size_bytes": size}, f"{out}: {size} bytes", as_json=as_json)
