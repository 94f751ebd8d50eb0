"""Experiments, which `tentalis eval experiment` asks: carried to their end, and shown."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tentalis.cli.benchmark import follow
from tentalis.cli.evaluation import ANSWERED
from tentalis.cli.output import AsJson, Project, print_rows
from tentalis.cli.session import list_rows, open_client

if TYPE_CHECKING:
    from tentalis.client import Client, Json

app = typer.Typer(no_args_is_help=True)
COLUMNS = ("id", "project", "experiment", "findings", "failure", "finished_at")
ALL = "all"
STOPPED = frozenset({"paused", "failed"})
"""States of an evaluation that may go on."""


@app.command()
def run(
    which: Annotated[str, typer.Argument(metavar="N|all", help="Number of an experiment, or all of the project's.")],
    again: Annotated[
        bool, typer.Option("--again", help="Ask every prompt once more, as an experiment of the same name.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow it to its end.")] = True,
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Measure what an experiment compares: what was paused or failed goes on. Exits 1 where an answer is missing."""
    if which != ALL and not (which.isascii() and which.isdigit()):
        raise typer.BadParameter(f"wanted the number of an experiment, or {ALL}; found {which!r:.40}")
    with open_client() as client:
        if which == ALL:
            found = list_rows(client, client.list_experiments, project=project)
        else:
            found = [client.get_experiment(int(which))]
        made = [_ask_again(client, one) if again else one for one in found]
        for pk in dict.fromkeys(pk for one in made for pk in _list_evaluations(client, one)):
            evaluation = client.get_evaluation(pk)
            if evaluation["state"] in STOPPED:
                evaluation = client.resume_evaluation(pk)
            if wait:
                follow(client, evaluation)
        rows = [row for one in made for row in _read_answers(client, one["id"])]
    print_rows(rows, ("experiment", *ANSWERED), as_json=as_json, empty="no experiments")
    if wait and any(row["score"] is None for row in rows):
        raise typer.Exit(1)


@app.command()
def results(
    experiment_id: Annotated[
        int | None, typer.Argument(min=1, metavar="[N]", help="Number of an experiment; without: which there are.")
    ] = None,
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Show what each question of an experiment was answered, each corrected for all of them."""
    with open_client() as client:
        if experiment_id is None:
            rows = list_rows(client, client.list_experiments, project=project)
            print_rows(
                rows,
                COLUMNS,
                as_json=as_json,
                empty="no experiments: `tentalis eval experiment NAME QUESTION=FIRST,SECOND`",
            )
        else:
            rows = _read_answers(client, experiment_id)
            print_rows(rows, ANSWERED, as_json=as_json, empty="no questions")


def _list_evaluations(client: "Client", experiment: "Json") -> list[int]:
    """Each once."""
    rows = _list_questions(client, experiment["id"])
    return list(dict.fromkeys(row[side] for row in rows for side in ("candidate", "reference")))


def _list_questions(client: "Client", experiment_id: int) -> list[dict[str, Any]]:
    """All are on one page."""
    found: list[dict[str, Any]] = client.list_scenarios(experiment_id, limit=200)["results"]
    return found


def _read_answers(client: "Client", experiment_id: int) -> list[dict[str, Any]]:
    rows = _list_questions(client, experiment_id)
    return [{"experiment": experiment_id} | row | row["details"] for row in rows]


def _ask_again(client: "Client", experiment: "Json") -> "Json":
    """An experiment of its name over new evaluations, which ask the very prompts of its own."""
    new = {pk: client.replay_evaluation(pk)["id"] for pk in _list_evaluations(client, experiment)}
    scenarios = [
        {"scenario": row["scenario"], "candidate": new[row["candidate"]], "reference": new[row["reference"]]}
        for row in _list_questions(client, experiment["id"])
    ]
    return client.make_experiment(
        project=experiment["project"], experiment=experiment["experiment"], scenarios=scenarios
    )
