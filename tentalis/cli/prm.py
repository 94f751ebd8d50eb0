"""Trained step scorers: train one now, look at them, take one out of use."""

from itertools import islice
from typing import Annotated

import typer

from tentalis.cli.output import AsJson, Limit, Project, print_json, print_row, print_rows

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
    from tentalis.cli.session import choose_project, open_client

    with open_client() as client:
        run = client.train_scorer(project=choose_project(client, project), worker=worker, backend=backend or None)
    if as_json:
        print_json(run)
    else:
        typer.echo(f"run {run['id']} is {run['state']}; see: tentalis run watch {run['id']}")


@app.command("list")
def list_scorers(
    project: Project = "",
    state: Annotated[str, typer.Option(help="candidate, live, retired or refused.")] = "",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List step scorers, newest first."""
    from tentalis.cli.session import open_client

    with open_client() as client:
        given = {name: value for name, value in {"project": project, "state": state}.items() if value}
        rows = list(islice(client.iterate(client.list_scorers, limit=min(limit, 200), **given), limit))
    print_rows(rows, ("id", "worker", "name", "state", "run", "words"), as_json=as_json, empty="no step scorers")


@app.command()
def show(scorer_id: ScorerId, as_json: AsJson = False) -> None:
    """Show a step scorer with what its gate measured."""
    from tentalis.cli.session import open_client

    with open_client() as client:
        print_row(client.get_scorer(scorer_id), as_json=as_json)


@app.command()
def retire(scorer_id: ScorerId, as_json: AsJson = False) -> None:
    """Take a step scorer out of use."""
    from tentalis.cli.session import open_client

    with open_client() as client:
        print_row(client.retire_scorer(scorer_id), as_json=as_json)
