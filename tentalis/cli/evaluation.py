"""Evaluations: how a model does on items, two of them compared, and several such questions asked together."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tentalis.cli.benchmark import run_benchmark
from tentalis.cli.output import AsJson, Project, print_row, print_rows
from tentalis.cli.session import choose_project, list_rows, open_client


class _OrBenchmark(TyperGroup):
    """Whatever is none of its commands is the name of a benchmark."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = [BENCH, *args]
        return super().resolve_command(ctx, args)


BENCH = "bench"
app = typer.Typer(no_args_is_help=True, cls=_OrBenchmark)
app.command(BENCH)(run_benchmark)
EvaluationId = Annotated[int, typer.Argument(min=1, help="Number of the evaluation.")]
ANSWERED = ("scenario", "candidate", "reference", "score", "outcomes", "why")
COLUMNS = ("id", "project", "worker", "adapter", "item_set", "state", "played", "planned", "mean_outcome")


@app.command()
def run(
    worker: Annotated[str, typer.Argument(help="The worker whose model is asked.")],
    taskset: Annotated[int | None, typer.Option(min=1, help="Number of a taskset's version.")] = None,
    environment: Annotated[str, typer.Option(help="Instead: one that makes held-out tasks up.")] = "",
    adapter: Annotated[str, typer.Option(help="By name; the base model without.")] = "",
    split: Annotated[str, typer.Option(help="Of the taskset: held_out, skills or train.")] = "held_out",
    size: Annotated[int, typer.Option(min=1, help="Tasks that the environment makes up.")] = 100,
    draw: Annotated[int, typer.Option(min=0, help="Another one makes up others.")] = 0,
    tries: Annotated[int, typer.Option(min=1, help="Of each item.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Another one gives other answers.")] = 0,
    greedy: Annotated[bool, typer.Option("--greedy", help="The likeliest answers instead of sampled ones.")] = False,
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Have a model try items. The very same is measured once."""
    asked = {"taskset": taskset, "environment": environment, "adapter": adapter}
    with open_client() as client:
        made = client.ask_evaluation(
            project=choose_project(client, project),
            worker=worker,
            split=split,
            size=size,
            draw=draw,
            tries=tries,
            seed=seed,
            is_greedy=greedy,
            **{name: value for name, value in asked.items() if value},
        )
    print_row(made, as_json=as_json)


@app.command("list")
def list_evaluations(project: Project = "", as_json: AsJson = False) -> None:
    """List evaluations, the gate's too, newest first."""
    with open_client() as client:
        rows = list_rows(client, client.list_evaluations, project=project)
    print_rows(rows, COLUMNS, as_json=as_json, empty="no evaluations")


@app.command()
def show(evaluation_id: EvaluationId, as_json: AsJson = False) -> None:
    """Show how far it is and what it found."""
    with open_client() as client:
        print_row(client.get_evaluation(evaluation_id), as_json=as_json)


@app.command()
def figures(evaluation_id: EvaluationId, as_json: AsJson = False) -> None:
    """How sure the mean is, what several tries would do, and what is not known."""
    with open_client() as client:
        print_row(client.get_figures(evaluation_id), as_json=as_json)


@app.command()
def pause(evaluation_id: EvaluationId, as_json: AsJson = False) -> None:
    """Begin no further tries."""
    with open_client() as client:
        print_row(client.pause_evaluation(evaluation_id), as_json=as_json)


@app.command()
def resume(evaluation_id: EvaluationId, as_json: AsJson = False) -> None:
    """Let a paused or failed one go on."""
    with open_client() as client:
        print_row(client.resume_evaluation(evaluation_id), as_json=as_json)


@app.command()
def cancel(evaluation_id: EvaluationId, as_json: AsJson = False) -> None:
    """Stop it for good."""
    with open_client() as client:
        print_row(client.cancel_evaluation(evaluation_id), as_json=as_json)


@app.command()
def compare(
    first: EvaluationId,
    second: Annotated[int, typer.Argument(min=1, help="What it is compared with.")],
    as_json: AsJson = False,
) -> None:
    """The first minus the second, paired by item."""
    with open_client() as client:
        print_row(client.compare_evaluations(first, second), as_json=as_json)


@app.command()
def experiment(
    name: Annotated[str, typer.Argument(help="Of the experiment.")],
    questions: Annotated[
        list[str], typer.Argument(metavar="NAME=FIRST,SECOND...", help="Evaluations that are compared, by number.")
    ],
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Ask several comparisons together, each corrected for all of them; evaluations may still be under way."""
    scenarios = [_read_question(one) for one in questions]
    with open_client() as client:
        made = client.make_experiment(project=choose_project(client, project), experiment=name, scenarios=scenarios)
        rows = client.list_scenarios(made["id"])["results"]
    print_rows([row | row["details"] for row in rows], ANSWERED, as_json=as_json, empty="no questions")


def _read_question(text: str) -> dict[str, Any]:
    name, _, pair = text.rpartition("=")
    first, _, second = pair.partition(",")
    if not (name and first.isdecimal() and second.isdecimal()):
        raise typer.BadParameter(f"wanted NAME=FIRST,SECOND with the numbers of two evaluations, found {text!r:.80}")
    return {"scenario": name, "candidate": int(first), "reference": int(second)}
