"""Benchmarks: what comes along, what a project has of it, and their runs."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tentalis.cli.output import AsJson, Project, print_result, print_row, print_rows
from tentalis.cli.row_reading import pack_rows, read_file_rows
from tentalis.cli.session import choose_project, choose_worker, list_rows, open_client

if TYPE_CHECKING:
    from tentalis.client import Client, Json

app = typer.Typer(no_args_is_help=True)
COLUMNS = ("name", "version", "group", "environment", "grader", "items", "needs", "licence")
INSTALLED = ("id", "project", "name", "version", "grader", "split", "tries", "source")
RUNNING = ("queued", "running", "waiting")
LOOK_S = 0.5
BUDGETS = ("tokens", "usd", "minutes")
MOST_PLACES = 100_000
Concurrency = Annotated[int | None, typer.Option(min=1, help="Tries at one time.")]
Timeout = Annotated[float | None, typer.Option(help="Seconds that a try may take.")]
Budget = Annotated[str, typer.Option(metavar="tokens=N,usd=N,minutes=N", help="Where one is used, it pauses.")]
Name = Annotated[str, typer.Argument(help="Of the catalogue.")]


@app.command("list")
def list_benchmarks(
    offline: Annotated[bool, typer.Option("--offline", help="Only what runs without a network or a file.")] = False,
    installed: Annotated[bool, typer.Option("--installed", help="What projects have instead.")] = False,
    group: Annotated[str, typer.Option(help="Only these: math, code, instructions ...")] = "",
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """List the catalogue."""
    with open_client() as client:
        if installed:
            rows = list_rows(client, client.list_benchmarks, project=project)
            print_rows(rows, INSTALLED, as_json=as_json, empty="no benchmarks: `tentalis benchmark install NAME`")
            return
        found = client.list_catalogue()["results"]
    kept = [one for one in found if (one["is_offline"] or not offline) and group in ("", one["group"])]
    print_rows(list(_summed(kept)), COLUMNS, as_json=as_json, empty="no such benchmarks")


def _summed(entries: "Iterable[Json]") -> "Iterable[Json]":
    for one in entries:
        sizes = ", ".join(f"{size} {split}" for split, size in one["sizes"].items())
        yield one | {"items": sizes, "needs": ", ".join(one["needs"])}


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show one of the catalogue."""
    with open_client() as client:
        print_row(find_entry(client, name), as_json=as_json)


def find_entry(client: "Client", name: str) -> "Json":
    """One of the catalogue.

    Raises:
        typer.BadParameter: there is none of that name.
    """
    listed: list[Json] = client.list_catalogue()["results"]
    found = next((one for one in listed if one["name"] == name), None)
    if found is None:
        raise typer.BadParameter(f"wanted a benchmark of `tentalis benchmark list`, found {name!r:.80}")
    return found


@app.command()
def install(
    name: Name,
    file: Annotated[
        str,
        typer.Option(help="FILE.jsonl, .json, .csv, .parquet or .arrow with its rows, or a directory of `datasets`."),
    ] = "",
    seed: Annotated[int, typer.Option(min=0, help="Of rows that it makes up.")] = 0,
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Put one of the catalogue into a project, as a frozen taskset."""
    with open_client() as client:
        made = install_named(client, choose_project(client, project), name, file=file, seed=seed)
    print_result(made, f"{made['name']} version {made['version']}: benchmark {made['id']}", as_json=as_json)


def install_named(client: "Client", project: str, name: str, *, file: str = "", seed: int = 0) -> "Json":
    """The benchmark as the project has it, installed where it has it not yet."""
    if file:
        return send_rows(client, project, name, read_file_rows(file), origin=Path(file).name)
    return client.install_benchmark(project=project, name=name, seed=seed)


def send_rows(client: "Client", project: str, name: str, rows: "Sequence[Json]", *, origin: str) -> "Json":
    """Rows as a benchmark of the catalogue, in as many pieces as they take."""
    pieces = [client.send_piece(project=project, packed=packed)["sha256"] for packed in pack_rows(rows, where=origin)]
    return client.install_benchmark(project=project, name=name, pieces=pieces, origin=origin[:200] or "rows")


def find_or_install(client: "Client", project: str, name: str, *, file: str = "") -> "Json":
    """A benchmark of the project by `name` or `name@version`; installed where there is none, or rows are brought.

    Raises:
        typer.BadParameter: the project has not that version.
    """
    slug, _, version = name.partition("@")
    found = find_installed(client, project, name)
    if found is None and version and not file:
        raise typer.BadParameter(f"{project} has no benchmark {name}")
    return install_named(client, project, slug, file=file) if found is None or file else found


def find_installed(client: "Client", project: str, name: str) -> "Json | None":
    """A benchmark that the project has, by `name`, its newest, or `name@version`; None: it has none."""
    slug, _, version = name.partition("@")
    there = list_rows(client, client.list_benchmarks, project=project, name=slug)
    return next((one for one in there if version in ("", str(one["version"]))), None)


def run_benchmark(
    name: Annotated[str, typer.Argument(metavar="BENCH", help="Of `tentalis benchmark list`, maybe @VERSION.")],
    worker: Annotated[str, typer.Option("--worker", "-w", "--agent", help="Whose model is asked.")] = "",
    adapter: Annotated[str, typer.Option(help="By name; the base model without.")] = "",
    attempts: Annotated[int | None, typer.Option(min=1, help="Of each item; else as the benchmark says.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="So many items, the first ones.")] = None,
    indices: Annotated[str, typer.Option(help="Instead: these, by place from 0: 3,5,7-9.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Another one gives other answers.")] = 0,
    greedy: Annotated[bool, typer.Option("--greedy", help="The likeliest answers instead of sampled ones.")] = False,
    concurrency: Concurrency = None,
    timeout: Timeout = None,
    budget: Budget = "",
    resume: Annotated[int | None, typer.Option(min=1, help="Go on with this run of it instead.")] = None,
    replay: Annotated[
        int | None, typer.Option(min=1, help="Ask the very prompts of this run of it once more instead.")
    ] = None,
    file: Annotated[str, typer.Option(help="Its rows, where they do not come along.")] = "",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow it to its end.")] = True,
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Run a benchmark. It is installed where the project has it not; the very same is measured once."""
    if resume is not None and replay is not None:
        raise typer.BadParameter("wanted --resume RUN or --replay RUN, found both")
    limits = read_limits(concurrency=concurrency, timeout=timeout, budget=budget)
    with open_client() as client:
        if (run := resume or replay) is not None:
            _require_run_of(client, run, name)
            go_on = client.resume_evaluation if resume is not None else client.replay_evaluation
            made = go_on(run, limits=limits or None)
        else:
            slug = choose_project(client, project)
            benchmark = find_or_install(client, slug, name, file=file)
            asked = {
                "adapter": adapter,
                "tries": attempts,
                "limit": limit,
                "indices": read_indices(indices),
                "limits": limits,
            }
            made = client.ask_evaluation(
                project=slug,
                worker=choose_worker(client, slug, worker),
                benchmark=benchmark["id"],
                seed=seed,
                is_greedy=greedy,
                **{field: value for field, value in asked.items() if value},
            )
        if wait:
            made = follow(client, made)
        figures = client.get_figures(made["id"]) | client.get_confounds(made["id"]) if wait else {}
    told = made | (figures if as_json else say_alignment(figures))
    print_row(told, as_json=as_json, skip=("item_set_hash", "project", "created_at", "made_with"))
    if made["state"] == "failed":
        raise typer.Exit(1)


def _require_run_of(client: "Client", run: int, name: str) -> None:
    found = client.get_evaluation(run)["benchmark"]
    known = None if found is None else client.get_benchmark(found)
    if known is None or name not in (known["name"], f"{known['name']}@{known['version']}"):
        of = "of no benchmark" if known is None else f"of {known['name']}@{known['version']}"
        raise typer.BadParameter(f"wanted a run of {name}, found evaluation {run}, {of}")


def read_limits(*, concurrency: int | None, timeout: float | None, budget: str) -> dict[str, Any]:
    """What REST takes as `limits`; nothing of what nobody said."""
    found: dict[str, Any] = {}
    for part in filter(None, budget.replace(" ", "").split(",")):
        name, _, text = part.partition("=")
        try:
            found[name] = int(text) if name == "tokens" else float(text)
        except ValueError:
            name = ""
        if name not in BUDGETS:
            raise typer.BadParameter(f"--budget: wanted tokens=N,usd=N,minutes=N, found {part!r:.80}")
    if concurrency is not None:
        found["concurrency"] = concurrency
    if timeout is not None:
        found["timeout_s"] = timeout
    return found


def read_indices(text: str) -> list[int]:
    """`3,5,7-9` as places."""
    places: list[int] = []
    for part in filter(None, text.replace(" ", "").split(",")):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) - int(first) > MOST_PLACES):
            raise typer.BadParameter(f"--indices: wanted places such as 3,5,7-9, found {part!r:.80}")
        places += range(int(first), int(last or first) + 1)
    return places


def follow(client: "Client", evaluation: "Json") -> "Json":
    """An evaluation when it has ended; meanwhile how far it is, on the error output."""
    told = -1
    while evaluation["state"] in RUNNING:
        if evaluation["played"] != told:
            told = evaluation["played"]
            typer.echo(f"evaluation {evaluation['id']}: {told} of {evaluation['planned']}", err=True)
        time.sleep(LOOK_S)
        evaluation = client.get_evaluation(evaluation["id"])
    return evaluation


def say_alignment(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Figures with those of alignment, where there are any, in a line a family."""
    if not (found := figures.get("alignment")):
        return dict(figures)
    lines = [f"{one['family'] or 'all'}: {one['words']}" for one in (found["whole"], *found["families"])]
    return {**figures, "alignment": "\n".join(lines)}
