"""Evaluations: how a model does on items, two of them compared, and several such questions asked together."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tentalis.cli.benchmark import (
    LOOK_S,
    Budget,
    Concurrency,
    Timeout,
    find_installed,
    follow,
    read_limits,
    run_benchmark,
    say_alignment,
)
from tentalis.cli.output import AsJson, Match, Project, print_row, print_rows
from tentalis.cli.reading import read_bytes, read_text
from tentalis.cli.run_files import MOST_FILE, pack_run
from tentalis.cli.session import choose_project, list_rows, open_client
from tentalis.cli.task import read_json


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
ENDINGS = {"inspect": "json", "csv": "csv", "parquet": "parquet", "markdown": "md", "html": "html"}
COMPARED = ("a", "b", "items", "difference", "low", "high", "p", "effect", "verdict", "why")
RANKED = ("place", "model", "worker", "mean_outcome", "low", "high", "items", "ahead", "behind", "evaluation")
ANSWERED = ("scenario", "candidate", "reference", "score", "outcomes", "why")
AGREED = ("grader", "tries", "grades", "agreed", "kappa", "interval", "reason")
DIFFERING = ("item_try", "place", "number", "grader", "outcome", "author", "value", "text")
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
        found = client.get_figures(evaluation_id)
    print_row(found if as_json else say_alignment(found), as_json=as_json)


@app.command()
def pause(evaluation_id: EvaluationId, as_json: AsJson = False) -> None:
    """Begin no further tries."""
    with open_client() as client:
        print_row(client.pause_evaluation(evaluation_id), as_json=as_json)


@app.command()
def resume(
    evaluation_id: EvaluationId,
    concurrency: Concurrency = None,
    timeout: Timeout = None,
    budget: Budget = "",
    as_json: AsJson = False,
) -> None:
    """Let a paused or failed one go on, maybe with other limits."""
    limits = read_limits(concurrency=concurrency, timeout=timeout, budget=budget)
    with open_client() as client:
        print_row(client.resume_evaluation(evaluation_id, limits=limits or None), as_json=as_json)


@app.command("try")
def show_try(
    evaluation_id: EvaluationId,
    try_id: Annotated[int, typer.Argument(min=1, help="Number of the try.")],
    as_json: AsJson = False,
) -> None:
    """Show all that came of a try: its conversation, what was verified, what it took."""
    with open_client() as client:
        print_row(client.get_try(evaluation_id, try_id), as_json=as_json)


@app.command()
def grade(
    evaluation_id: EvaluationId,
    try_id: Annotated[int, typer.Argument(min=1, help="Number of the try.")],
    value: Annotated[float, typer.Argument(min=0, max=1, help="From 0, wrong, to 1, right.")],
    text: Annotated[str, typer.Option(help="A word on it.")] = "",
    as_json: AsJson = False,
) -> None:
    """Say how right a try's answer is, beside the grader's word."""
    with open_client() as client:
        print_row(client.grade_try(evaluation_id, try_id, value=value, text=text), as_json=as_json)


@app.command()
def keep(
    evaluation_id: EvaluationId,
    try_id: Annotated[int, typer.Argument(min=1, help="Number of the try.")],
    right: Annotated[str, typer.Option(help="What a right answer is.")],
    match: Match = "",
    as_json: AsJson = False,
) -> None:
    """Make its item a regression case, where a person's grade contradicts the grader's."""
    with open_client() as client:
        made = client.keep_try(evaluation_id, try_id, right=right, match=match)
    print_row(made, as_json=as_json)


@app.command()
def agreement(evaluation_id: EvaluationId, as_json: AsJson = False) -> None:
    """How far its graders agree with people, and where they differ."""
    with open_client() as client:
        found = client.get_agreement(evaluation_id)
    if as_json:
        print_row(found, as_json=True)
        return
    print_rows(found["graders"], AGREED, as_json=False, empty="nobody graded any of it")
    if found["differ"]:
        print_rows(found["differing"], DIFFERING, as_json=False, empty="")


@app.command()
def cancel(evaluation_id: EvaluationId, as_json: AsJson = False) -> None:
    """Stop it for good."""
    with open_client() as client:
        print_row(client.cancel_evaluation(evaluation_id), as_json=as_json)


@app.command()
def compare(
    first: EvaluationId,
    others: Annotated[list[int], typer.Argument(min=1, help="What it is compared with.")],
    as_json: AsJson = False,
) -> None:
    """The first minus each of the others, paired by item, each p corrected for all of them."""
    with open_client() as client:
        found = client.compare_together(first, others)["results"]
        if not any(one["outcomes"] for one in found):
            for why in dict.fromkeys(one["why"] for one in found):
                typer.echo(f"tentalis: {why}", err=True)
            raise typer.Exit(1)
        confounds = {pk: client.get_confounds(pk)["words"] for pk in (first, *others)}
    _print_compared(found, confounds, as_json=as_json)


@app.command()
def leaderboard(
    name: Annotated[str, typer.Argument(metavar="BENCH", help="Of the project's benchmarks, maybe @VERSION.")],
    worker: Annotated[str, typer.Option("--worker", "-w", help="Only of its line.")] = "",
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Rank a benchmark's models as far as paired tests tell them apart; who is not told apart shares places."""
    with open_client() as client:
        benchmark = find_installed(client, choose_project(client, project), name)
        if benchmark is None:
            raise typer.BadParameter(f"wanted one of `tentalis benchmark list --installed`, found {name!r:.80}")
        found = client.get_leaderboard(benchmark["id"], worker=worker)
    if as_json:
        print_row(found, as_json=True)
        return
    for number, board in enumerate(found["boards"]):
        if number:
            typer.echo("not measured alike, so not ranked with those above:")
        rows = [row | {"place": say_place(row), "model": row["adapter"] or "base model"} for row in board["rows"]]
        print_rows(rows, RANKED, as_json=False, empty="")
        for words in board["why"]:
            typer.echo(f"not compared: {words}")
        if board["left_out"]:
            typer.echo(f"{board['left_out']} measured earlier are left out")
    if not found["boards"]:
        typer.echo("nobody ran it to the end yet")
    if found["elsewhere"]:
        typer.echo(f"measured on other versions alone, so not ranked: {', '.join(found['elsewhere'])}")


def say_place(row: Any) -> str:
    return str(row["best"]) if row["best"] == row["worst"] else f"{row['best']} to {row['worst']}"


@app.command()
def noise(
    evaluation_id: EvaluationId,
    runs: Annotated[int, typer.Option(min=1, max=20, help="With other seeds.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Run the same once more, with other seeds, and compare it with itself: what is shown of nothing."""
    with open_client() as client:
        row = client.get_evaluation(evaluation_id)
        if row["is_greedy"]:
            raise typer.BadParameter(f"wanted sampled answers: the likeliest of {evaluation_id} are the same each time")
        kept = ("project", "worker", "adapter", "tries", "limits")
        asked = {name: row[name] for name in kept if row[name]} | _tell_items(row)
        seeds = [row["seed"] + number for number in range(1, runs + 1)]
        others = [client.ask_evaluation(**asked, seed=seed) for seed in seeds]
        others = [follow(client, one) for one in others]
        found = client.compare_together(evaluation_id, [one["id"] for one in others])["results"]
    _print_compared(found, {}, as_json=as_json)
    if not as_json and (known := [abs(one["outcomes"]["difference"]) for one in found if one["outcomes"]]):
        typer.echo(f"the largest difference of nothing: {max(known):.3f}")


def _tell_items(row: Any) -> dict[str, Any]:
    """Which items an evaluation is of, as another asks for them."""
    if row["taskset"] is None:
        environment, size, draw = row["item_set"].split("/")
        return {"environment": environment, "size": int(size), "draw": int(draw)}
    chosen = {"indices": row["indices"]} if row["indices"] else {"limit": row["planned"] // row["tries"]}
    if row["benchmark"] is not None:
        return chosen | {"benchmark": row["benchmark"]}
    return chosen | {"taskset": row["taskset"], "split": row["split"]}


def _print_compared(found: list[Any], confounds: dict[int, list[str]], *, as_json: bool) -> None:
    rows = [one | (one["outcomes"] or {}) | {"confounds": confounds} for one in found]
    if as_json:
        print_rows(rows, COMPARED, as_json=True, empty="")
        return
    print_rows(rows, COMPARED, as_json=False, empty="nothing was compared")
    words = [one["length"] for one in found if one["length"]]
    words += [f"evaluation {pk}: {one}" for pk, told in confounds.items() for one in told]
    for one in words:
        typer.echo(one)


@app.command()
def rescore(
    evaluation_id: Annotated[int | None, typer.Argument(min=1, metavar="[RUN]", help="Number of the run.")] = None,
    history: Annotated[str, typer.Option(help="Instead: attempts, reviews or rollouts of the project.")] = "",
    grader: Annotated[str, typer.Option(metavar="NAME@V", help="What grades; the version must be installed.")] = "",
    scorer: Annotated[str, typer.Option(help="Instead: a scorer, by name.")] = "",
    rubric: Annotated[str, typer.Option(metavar="FILE", help="Instead: a rubric.")] = "",
    constitution: Annotated[str, typer.Option(metavar="FILE", help="What the rubric's judge holds beside it.")] = "",
    checks: Annotated[str, typer.Option(metavar="FILE", help="Instead: checks, as JSON.")] = "",
    worker: Annotated[str, typer.Option("--worker", "-w", help="Of a history: whose.")] = "",
    side: Annotated[float, typer.Option(help="An answer is on the good side from so much on.")] = 0.5,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow it to its end.")] = True,
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Grade anew what was answered before, beside the old grades, and show who changed sides."""
    if (evaluation_id is None) == (not history):
        raise typer.BadParameter("wanted RUN, or --history attempts, reviews or rollouts, and one of them alone")
    told: dict[str, Any] = {
        "history": history,
        "grader": grader,
        "scorer": scorer,
        "rubric": read_text(rubric) if rubric else "",
        "constitution": read_text(constitution) if constitution else "",
        "checks": read_json("--checks", read_text(checks)) if checks else None,
        "worker": worker,
        "side": side,
    }
    told = {name: value for name, value in told.items() if value not in ("", None)}
    with open_client() as client:
        if evaluation_id is None:
            row = client.ask_regrading(project=choose_project(client, project), **told)
        else:
            row = client.rescore_evaluation(evaluation_id, **told)
        while wait and row["state"] in ("queued", "running"):
            time.sleep(LOOK_S)
            row = client.get_regrading(row["id"])
        changed = client.list_grades(row["id"], changed="side")["results"] if wait else []
    if as_json:
        print_row(row | {"changed_sides": changed}, as_json=True)
        return
    print_row(row, as_json=False, skip=("rule", "project", "created_at"))
    print_rows(changed, ("subject_id", "old", "new", "cause"), as_json=False, empty="nobody changed sides")
    if row["state"] == "failed":
        raise typer.Exit(1)


@app.command("import")
def import_run(
    file: Annotated[str, typer.Argument(help="An .eval or .json of inspect_ai, a .jsonl of the others.")],
    form: Annotated[
        str, typer.Option(help="inspect, lm-eval, openai-evals, sharegpt or messages. Default: as it looks.")
    ] = "",
    score: Annotated[str, typer.Option(help="Which grade counts; lm-eval: METRIC,FILTER. Default: the first.")] = "",
    results: Annotated[str, typer.Option(metavar="FILE", help="lm-eval's results, which name the model.")] = "",
    worker: Annotated[str, typer.Option("--worker", "-w", help="Whose answers these are, if one of yours.")] = "",
    adapter: Annotated[str, typer.Option(help="Of that worker, by name.")] = "",
    grader: Annotated[str, typer.Option(metavar="NAME@V", help="Grade it anew, beside the grades it had.")] = "",
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Take in a run that another tool made, all of it or nothing."""
    name = Path(file).name
    whole = read_text(results) if results else ""
    written = pack_run(read_bytes(file, most=MOST_FILE), name=name, form=form, score=score, results=whole)
    told = {"worker": worker, "adapter": adapter, "grader": grader}
    with open_client() as client:
        made = client.import_run(
            project=choose_project(client, project),
            file=written,
            name=name,
            **{field: value for field, value in told.items() if value},
        )
    if as_json:
        print_row(made, as_json=True)
        return
    print_row(made["evaluation"], as_json=False, skip=("item_set_hash", "indices", "made_with", "created_at"))
    if made["regrading"] is not None:
        typer.echo(f"graded anew: regrading {made['regrading']}")
    typer.echo(made["words"])


@app.command()
def export(
    evaluation_id: EvaluationId,
    form: Annotated[str, typer.Option(help="inspect, csv, parquet, markdown or html.")] = "inspect",
    to: Annotated[str, typer.Option(metavar="FILE", help="Default: evaluation-N with the form's ending, here.")] = "",
) -> None:
    """Write a run to a file: a log of inspect_ai, a table, or a page to read."""
    if form not in ENDINGS:
        raise typer.BadParameter(f"--form: wanted one of {', '.join(ENDINGS)}, found {form!r:.40}")
    target = Path(to or f"evaluation-{evaluation_id}.{ENDINGS[form]}")
    with open_client() as client:
        size = client.download(f"evaluations/{evaluation_id}/export", target, form=form)
    typer.echo(f"{target}: {size:,} bytes")


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
