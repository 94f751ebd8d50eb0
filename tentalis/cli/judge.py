"""Judges: probe one, and what probes found."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from tentalis.cli.output import AsJson, Limit, Project, print_row, print_rows
from tentalis.cli.session import choose_project, list_rows, open_client

if TYPE_CHECKING:
    from tentalis.client import Json

app = typer.Typer(no_args_is_help=True)
LOOK_S = 0.5
FIGURES = ("name", "value", "low", "high", "items", "unscored", "verdict", "kappa")
SKIPPED = ("figures", "created_at")
ProbeId = Annotated[int, typer.Argument(min=1, help="Number of the probe.")]


@app.command()
def probe(
    model: Annotated[str, typer.Argument(metavar="[SERVER/MODEL]", help="Default: the installation's judge.")] = "",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow it to its end.")] = True,
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Ask a judge fixed questions with known answers, and say whether it may train."""
    with open_client() as client:
        row = client.probe_judge(project=choose_project(client, project), model=model)
        while wait and row["state"] in ("queued", "running"):
            time.sleep(LOOK_S)
            row = client.get_judge_probe(row["id"])
    _print(row, as_json=as_json)
    if row["state"] == "failed" or row["verdict"] == "below":
        raise typer.Exit(1)


@app.command("list")
def list_probes(
    project: Project = "",
    model: Annotated[str, typer.Option(help="Only of this model, without its server.")] = "",
    verdict: Annotated[str, typer.Option(help="above, below or unscored.")] = "",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List probes, newest first."""
    with open_client() as client:
        rows = list_rows(client, client.list_judge_probes, limit, project=project, model=model, verdict=verdict)
    columns = ("id", "project", "judge", "state", "verdict", "words", "finished_at")
    print_rows(rows, columns, as_json=as_json, empty="no judge was probed: `tentalis judge probe`")


@app.command()
def show(probe_id: ProbeId, as_json: AsJson = False) -> None:
    """Show what a probe found: each figure with its interval."""
    with open_client() as client:
        _print(client.get_judge_probe(probe_id), as_json=as_json)


def _print(row: "Json", *, as_json: bool) -> None:
    print_row(row, as_json=as_json, skip=() if as_json else SKIPPED)
    if not as_json and row["figures"]:
        print_rows(row["figures"], FIGURES, as_json=False, empty="")
