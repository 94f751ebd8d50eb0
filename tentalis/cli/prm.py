"""Trained step scorers: train one now, look at them, take one out of use."""

from typing import Annotated

import typer

from tentalis.cli.output import AsJson, Limit, Project, print_result, print_row, print_rows
from tentalis.cli.session import choose_project, list_rows, open_client

app = typer.Typer(no_args_is_help=True)
ScorerId = Annotated[int, typer.Argument(min=1, help="Number of the step scorer.")]


@app.command()
def train(
    worker: Annotated[str, typer.Option("--worker", "-w", help="Whose steps it learns to score.")],
    backend: Annotated[str, typer.Option(help="standalone or openrlhf; default: standalone.")] = "",
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Train a step scorer now, on what is labelled."""
    with open_client() as client:
        run = client.train_scorer(project=choose_project(client, project), worker=worker, backend=backend or None)
    print_result(run, f"run {run['id']} is {run['state']}; see: tentalis run watch {run['id']}", as_json=as_json)


@app.command("list")
def list_scorers(
    project: Project = "",
    state: Annotated[str, typer.Option(help="candidate, live, retired or refused.")] = "",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List step scorers, newest first."""
    with open_client() as client:
        rows = list_rows(client, client.list_scorers, limit, project=project, state=state)
    print_rows(rows, ("id", "worker", "name", "state", "run", "words"), as_json=as_json, empty="no step scorers")


@app.command()
def show(scorer_id: ScorerId, as_json: AsJson = False) -> None:
    """Show a step scorer with what its gate measured."""
    with open_client() as client:
        print_row(client.get_scorer(scorer_id), as_json=as_json)


@app.command()
def retire(scorer_id: ScorerId, as_json: AsJson = False) -> None:
    """Take a step scorer out of use."""
    with open_client() as client:
        print_row(client.retire_scorer(scorer_id), as_json=as_json)
