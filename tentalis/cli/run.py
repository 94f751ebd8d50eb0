"""Training runs: start one now, look, watch."""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tentalis.cli.output import AsJson, Limit, Project, Worker, print_json, print_result, print_row, print_rows, to_cell
from tentalis.cli.session import choose_project, choose_worker, list_rows, open_client
from tentalis.cli.task import read_object

if TYPE_CHECKING:
    from tentalis.client import Client

app = typer.Typer(no_args_is_help=True)
RunId = Annotated[int, typer.Argument(min=1, help="Number of the run.")]
ENDED = frozenset({"succeeded", "failed", "cancelled", "refused"})
WAITING = frozenset({"queued", "paused"})
POLL_S = 1.0


def train(
    bench: Annotated[str, typer.Argument(help="A benchmark that it is to learn, round by round.")] = "",
    project: Project = "",
    worker: Annotated[
        str, typer.Option("--worker", "-w", "--agent", help="Name; default: the project's only one.")
    ] = "",
    backend: Annotated[str, typer.Option(help="standalone, openrlhf or tinker; default: the installation's.")] = "",
    recipe: Annotated[str, typer.Option(help="Recipe fields for this run, as JSON.")] = "",
    name: Annotated[str, typer.Option(help="What people call the run.")] = "",
    watch: Annotated[bool, typer.Option("--watch", help="Stay and show what comes of it until it ends.")] = False,
    rounds: Annotated[int, typer.Option(min=1, help="Of a benchmark, at most.")] = 20,
    tasks: Annotated[int, typer.Option(min=1, help="Of a round.")] = 24,
    attempts: Annotated[int | None, typer.Option(min=2, help="At each task of a benchmark.")] = None,
    patience: Annotated[int, typer.Option(min=1, help="Rounds that bring nothing better; then it ends.")] = 5,
    shown: Annotated[int, typer.Option(min=0, help="Known answers of a benchmark to imitate first.")] = 0,
    shown_recipe: Annotated[str, typer.Option(help="Recipe fields for what is imitated, as JSON.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Of what is chosen of a benchmark.")] = 0,
    file: Annotated[str, typer.Option(help="A benchmark's rows, where they do not come along.")] = "",
    as_json: AsJson = False,
) -> None:
    """Train a worker now, with what its batch holds; or have it learn a benchmark."""
    changes = read_object("a recipe", recipe)
    with open_client() as client:
        slug = choose_project(client, project)
        if bench:
            worker = choose_worker(client, slug, worker)
            asked: dict[str, Any] = {
                "rounds": rounds,
                "tasks": tasks,
                "patience": patience,
                "shown": shown,
                "seed": seed,
            }
            asked |= {"group_size": attempts} if attempts else {}
            asked |= {"backend": backend} if backend else {}
            asked |= {"recipe": changes} if changes else {}
            asked |= {"shown_recipe": told} if (told := read_object("a recipe", shown_recipe)) else {}
            learn_benchmark(client, slug, bench, worker, asked, file=file, watch=watch, as_json=as_json)
            return
        run = client.train(
            project=slug, worker=worker or None, backend=backend or None, recipe=changes, name=name or None
        )
        if watch:
            watch_run(client, run["id"], as_json=as_json)
            return
    print_result(run, f"run {run['id']} is {run['state']}; see: tentalis run watch {run['id']}", as_json=as_json)


@app.command("list")
def list_runs(
    project: Project = "",
    state: Annotated[str, typer.Option(help="queued, running, paused, succeeded, failed, refused or cancelled.")] = "",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    with open_client() as client:
        rows = list_rows(client, client.list_runs, limit, project=project, state=state)
    columns = ("id", "name", "project", "worker", "batch", "state", "attempt", "backend", "finished_at", "failure")
    print_rows(rows, columns, as_json=as_json, empty="no runs")


@app.command()
def show(run_id: RunId, as_json: AsJson = False) -> None:
    """Show a run with its recipe and what came of it."""
    with open_client() as client:
        run = client.get_run(run_id)
    if not as_json and run.get("learns_from"):
        run["learns_from"] = describe_contents(run["learns_from"])
    print_row(run, as_json=as_json)


@app.command()
def describe(
    run_id: RunId,
    name: Annotated[str | None, typer.Option(help="What people call it; an empty text takes the name away.")] = None,
    comment: Annotated[str | None, typer.Option(help="Notes; an empty text takes them away.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Tags, all of them anew; may be given several times.")] = None,
    as_json: AsJson = False,
) -> None:
    """Give a run a name, notes, tags; what is not given stays."""
    if name is None and comment is None and not tag:
        raise typer.BadParameter("wanted --name, --comment or --tag, found none")
    _act("describe_run", run_id, as_json=as_json, name=name, comment=comment, tags=tag or None)


@app.command()
def watch(
    run_id: RunId,
    as_json: AsJson = False,
) -> None:
    """Show a run's metrics as they come, and why it waits where it does, until it ends; exit 1 when it fails."""
    with open_client() as client:
        watch_run(client, run_id, as_json=as_json)


@app.command()
def cost(
    run_id: Annotated[int, typer.Argument(min=0, help="Number of the run; without: every run of a worker.")] = 0,
    project: Project = "",
    worker: Worker = "",
    as_json: AsJson = False,
) -> None:
    """Show what training cost beside what the gate measured that it brought."""
    with open_client() as client:
        if run_id:
            found = client.get_run_cost(run_id)
        else:
            slug = choose_project(client, project)
            found = client.get_gain(project=slug, worker=choose_worker(client, slug, worker))
    if as_json:
        print_json(found)
    elif run_id:
        print_row(describe_return(found), as_json=False)
    else:
        print_returns(found)


def describe_return(returns: dict[str, Any]) -> dict[str, str]:
    """A run's, or a whole line's, in words; what nobody measured is said to be so."""
    spent = returns["spent"]
    shown = {name: str(returns[name]) for name in ("run", "state", "adapter") if returns.get(name)}
    for name, label, unit in (
        ("gpu_s", "training time", "s"),
        ("judge_tokens", "judges and hints", "tokens"),
        ("usd", "models", "US dollars"),
        ("human_minutes", "people", "minutes"),
    ):
        shown[label] = "not measured" if spent[name] is None else f"{_say_number(spent[name])} {unit}"
    if spent["is_partial"]:
        shown["incomplete"] = "some calls had no price, or some of people's work was not timed"
    shown["brought"] = returns["gain"]["words"]
    is_proved = returns["gain"]["outcome"] in {"gained", "lost"}
    for name, label, by, least in (
        ("per_gpu_hour", "per GPU hour", "gpu_s", "a minute"),
        ("per_human_minute", "per minute of people", "human_minutes", "a second"),
    ):
        if rate := returns[name]:
            points, low, high = (_say_number(rate[part], sign="+") for part in ("points", "low", "high"))
            shown[label] = f"{points} points [{low}, {high}]"
        elif is_proved and spent[by] is not None:
            shown[label] = f"not told: less than {least} was spent"
    return shown


def _say_number(value: float, *, sign: str = "") -> str:
    """In three digits or more, never with an exponent: 0.0012, 13.3, 50,938."""
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    said = f"{value:{sign},.{digits}f}"
    return said.rstrip("0").rstrip(".") if digits else said


def print_returns(returns: dict[str, Any]) -> None:
    """A worker's runs, oldest first, and what the whole line cost and brought."""
    rows = []
    for row in returns["rows"]:
        gained = row["gain"]["found"]
        rows.append(
            {
                "run": row["run"],
                "state": row["state"],
                "GPU s": row["spent"]["gpu_s"],
                "judge tokens": row["spent"]["judge_tokens"],
                "USD": row["spent"]["usd"],
                "minutes": row["spent"]["human_minutes"],
                "held-out": row["accuracy"],
                "points": 100 * gained["difference"] if gained else None,
                "from": 100 * gained["low"] if gained else None,
                "to": 100 * gained["high"] if gained else None,
                "so it": row["gain"]["outcome"],
            }
        )
    print_rows(rows, tuple(rows[0]) if rows else (), as_json=False, empty="no runs")
    if returns["earlier"]:
        typer.echo(f"{returns['earlier']} earlier runs count below")
    typer.echo("all of them, and what serves now against the base model:")
    print_row(describe_return(returns["total"]), as_json=False)
    if returns["beside_count"]:
        beside = returns["beside"]["gpu_s"]
        typer.echo(
            f"not in it: {returns['beside_count']} trainings beside this line, {_say_number(beside or 0)} s of training"
        )


@app.command()
def cancel(run_id: RunId, as_json: AsJson = False) -> None:
    """Stop a run: at once while it waits, at its next update while it trains."""
    _act("cancel_run", run_id, as_json=as_json)


@app.command()
def pause(run_id: RunId, as_json: AsJson = False) -> None:
    """Stop a run so that it can go on."""
    _act("pause_run", run_id, as_json=as_json)


@app.command()
def resume(run_id: RunId, as_json: AsJson = False) -> None:
    """Let a paused run go on from its newest checkpoint, when its turn comes."""
    _act("resume_run", run_id, as_json=as_json)


@app.command()
def retry(
    run_id: RunId,
    recipe: Annotated[str, typer.Option(help="Recipe fields to change for this run, as JSON.")] = "",
    recipe_from: Annotated[
        str, typer.Option(help="Whose recipe: the run's own (run), or the one its worker has by now (worker).")
    ] = "run",
    as_json: AsJson = False,
) -> None:
    """Train again what failed, was refused or was cancelled, when its turn comes."""
    if recipe_from not in {"run", "worker"}:
        raise typer.BadParameter(f"wanted run or worker, found {recipe_from!r}")
    _act("retry_run", run_id, as_json=as_json, recipe=read_object("a recipe", recipe), recipe_from=recipe_from)


@app.command()
def reproduce(
    run_id: RunId,
    attempt: Annotated[int, typer.Option(min=0, help="Which attempt; 0: the last one that succeeded.")] = 0,
    out: Annotated[str, typer.Option(help="Directory for what comes out; default: one that goes afterwards.")] = "",
    artifacts: Annotated[str, typer.Option(help="The artifact store; default: this machine's.")] = "",
) -> None:
    """Train a run again from its spec, here, and say whether its weights come out bit for bit; exit 1 when not.

    Spec, data and parent are read from the artifact store: it must be on this machine. Nothing is stored.
    """
    directory = _find_attempt(find_artifacts(artifacts) / "runs" / str(run_id), attempt)
    argv = [sys.executable, "-m", "gpu_workers", "reproduce", str(directory), *(["--out", out] if out else [])]
    found = subprocess.run(argv, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
    raise typer.Exit(found.returncode)


def find_artifacts(given: str = "") -> Path:
    from tentalis.platform.config import load_config, read_settings
    from tentalis.platform.home import Home

    if given:
        return Path(given).expanduser().resolve()
    home = Home.find(os.environ)
    return read_settings(home, load_config(home), os.environ)["ARTIFACTS"] or home.artifacts


def _find_attempt(directory: Path, attempt: int) -> Path:
    """The directory of this attempt; 0: of the last that has an adapter's result."""
    if attempt:
        found = [directory / str(attempt)]
    else:
        found = [path.parent for path in directory.glob("*/result.json") if path.parent.name.isdigit()]
        found = [path for path in found if json.loads((path / "result.json").read_bytes()).get("ok")]
    if not found or not (found[-1] / "spec.json").is_file():
        raise typer.BadParameter(f"wanted an attempt that succeeded with spec.json and result.json under {directory}")
    return max(found, key=lambda path: int(path.name))


def _act(action: str, run_id: int, *, as_json: bool, **changes: Any) -> None:
    with open_client() as client:
        run = getattr(client, action)(run_id, **changes)
    print_result(run, f"run {run['id']} is {run['state']}", as_json=as_json)


def watch_run(client: "Client", run_id: int, *, as_json: bool, poll_s: float = POLL_S) -> None:
    """One line an update, of each attempt from its first on, and why the run waits, where it does. Raises typer.Exit(1)
    where it did not succeed."""
    shown, attempt, waits = 0, 0, ""
    while True:
        answer = client.get_run_metrics(run_id)
        if attempt and answer["attempt"] != attempt:
            typer.echo(f"run {run_id} is tried again: attempt {answer['attempt']}", err=True)
            shown = 0
        attempt = answer["attempt"]
        for update in answer["metrics"][shown:]:
            shown += 1
            print_result(
                {"run": run_id, "attempt": attempt, "update": shown, **update},
                f"update {update.get('update', shown)}: {describe_update(update)}",
                as_json=as_json,
            )
        if answer["state"] in ENDED:
            break
        now = client.get_run(run_id) if answer["state"] in WAITING else answer
        waits = _tell_waiting(f"run {run_id}", now, told=waits, advice=f"tentalis run resume {run_id}")
        time.sleep(poll_s)
    if answer["state"] != "succeeded":
        typer.echo(f"run {run_id} {answer['state']}: {client.get_run(run_id)['failure']}", err=True)
        raise typer.Exit(1)
    if not as_json:
        typer.echo(f"run {run_id} succeeded")


def _tell_waiting(what: str, row: Mapping[str, Any], *, told: str, advice: str) -> str:
    """Say why a run or course waits, where that is not what was `told`; what is told by now, "" where it does not.

    Args:
        advice: what lets it go on where it is paused.
    """
    if row["state"] not in WAITING:
        return ""
    reason = row.get("waiting_reason") or row.get("reason") or f"it is {row['state']}"
    words = f"{what}: {reason}"
    if row["state"] == "paused":
        words += f"; {advice} lets it go on"
    if words != told:
        typer.echo(words, err=True)
    return words


def describe_contents(held: Mapping[str, Any]) -> str:
    """What a batch holds: `96 pairs from 40 tasks: 60 choice, 36 edit`."""

    def count(number: int, name: str) -> str:
        return f"{number} {name if number == 1 else f'{name}s'}"

    what = {"rollouts": "attempt", "pairs": "pair", "demonstrations": "demonstration"}.get(held["kind"], "record")
    shares = ", ".join(f"{one['count']} {one['source']}" for one in held["shares"])
    found = f"{count(held['count'], what)} from {count(held['tasks'], 'task')}"
    return f"{found}: {shares}" if shares else found


def describe_update(update: dict[str, Any]) -> str:
    return " · ".join(f"{name.replace('_', ' ')} {to_cell(value)}" for name, value in update.items())


CURVE = ("round", "adapter", "is_better", "mean", "low", "high", "tries", "train_mean", "words")


def learn_benchmark(
    client: "Client",
    project: str,
    bench: str,
    worker: str,
    asked: Mapping[str, Any],
    *,
    file: str = "",
    watch: bool,
    as_json: bool,
) -> None:
    """Have a worker learn a benchmark, installed where the project has it not yet."""
    from tentalis.cli.benchmark import find_or_install

    benchmark = find_or_install(client, project, bench, file=file)
    course = client.start_course(project=project, worker=worker, benchmark=benchmark["id"], **asked)
    if watch:
        watch_course(client, course["id"], as_json=as_json)
        return
    print_result(
        course, f"course {course['id']} is running; see: tentalis course curve {course['id']}", as_json=as_json
    )


def watch_course(client: "Client", course_id: int, *, as_json: bool) -> None:
    """Tell each round's end, and show the learning curve when the course has ended; exit 1 where it failed."""
    told, waits = 0, ""
    while True:
        course, curve = client.get_course(course_id), client.get_curve(course_id)["results"]
        for point in curve[1:]:
            if point["round"] > told and point["is_better"] is not None:
                told = point["round"]
                share = "" if point["mean"] is None else f", held-out {point['mean']:.3f}"
                typer.echo(f"round {told}: {point['words']}{share}", err=True)
        if course["state"] not in ("running", "paused"):
            break
        advice = f"tentalis course resume {course_id}"
        waits = _tell_waiting(f"course {course_id}", course, told=waits, advice=advice)
        time.sleep(POLL_S)
    if as_json:
        print_json(course | {"curve": curve})
    else:
        print_rows(curve, CURVE, as_json=False, empty="no rounds")
        typer.echo(f"{course['state']}: {course['reason']}")
    if course["state"] == "failed":
        raise typer.Exit(1)
