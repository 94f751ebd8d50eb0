"""Workers: the agents that do tasks."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tentalis.cli.numbers import read_numbers
from tentalis.cli.output import AsJson, Project, print_json, print_result, print_row, print_rows
from tentalis.cli.session import choose_project, find_by_name, list_rows, open_client

if TYPE_CHECKING:
    from tentalis.client import Client, Json

app = typer.Typer(no_args_is_help=True)
FALLBACK = "server/model or another worker, asked while its own model cannot be had; repeatable, in order."
SAMPLING = "NAME=NUMBER, of what its kind takes: temperature, max_tokens, top_p; repeatable."
BASE_DIRECTORY = "Where the trainer finds the files of the very model its server serves; without it nothing trains."


@app.command("list")
def list_workers(project: Project = "", as_json: AsJson = False) -> None:
    """List workers."""
    with open_client() as client:
        rows = list_rows(client, client.list_workers, project=project)
    columns = ("id", "project", "name", "kind", "base_model", "learns_with", "adapter", "is_active")
    print_rows(rows, columns, as_json=as_json, empty="no workers")


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits, - and _.")],
    kind: Annotated[
        str, typer.Option("--kind", "-k", help="echo, desk, chat, outside, openclaw, or one that a package adds.")
    ],
    project: Project = "",
    base_model: Annotated[str, typer.Option(help="Name the model server knows it by.")] = "",
    base_directory: Annotated[str, typer.Option(help=BASE_DIRECTORY)] = "",
    provider: Annotated[str, typer.Option(help="Name of a model server.")] = "",
    agent_server: Annotated[str, typer.Option(help="Of an openclaw worker: name of its OpenClaw's gateway.")] = "",
    agent_id: Annotated[str, typer.Option(help="Of an openclaw worker: agent there; default: the default one.")] = "",
    system_prompt: Annotated[str, typer.Option(help="What the worker is told first.")] = "",
    sampling: Annotated[list[str] | None, typer.Option(help=SAMPLING)] = None,
    adapters_per: Annotated[
        str, typer.Option(help="worker, or user: each person it talks with teaches adapters of their own.")
    ] = "",
    user_batch_tasks: Annotated[
        int | None, typer.Option(min=1, help="Tasks that fill a batch of one person; default: the project's.")
    ] = None,
    fallback: Annotated[list[str] | None, typer.Option(help=FALLBACK)] = None,
    learns_with: Annotated[
        str, typer.Option(help="Name of the worker whose adapters it teaches and is served by; default: its own.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Give a project a worker."""
    settings = {
        "base_model": base_model,
        "base_directory": base_directory,
        "provider": provider,
        "agent_server": agent_server,
        "agent_id": agent_id,
        "system_prompt": system_prompt,
        "sampling": read_numbers("--sampling", sampling or []),
        "adapters_per": adapters_per,
        "user_batch_tasks": user_batch_tasks,
        "fallbacks": fallback,
        "learns_with": learns_with,
    }
    with open_client() as client:
        worker = client.create_worker(
            project=choose_project(client, project),
            name=name,
            kind=kind,
            **{field: value for field, value in settings.items() if value},
        )
    if as_json:
        print_json(worker)
    else:
        typer.echo(f"worker {worker['name']} works in {worker['project']}")
        _say_base(worker)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Name or number.")], project: Project = "", as_json: AsJson = False
) -> None:
    """Show a worker and what serves it."""
    with open_client() as client:
        print_row(find_worker(client, name, project), as_json=as_json)


@app.command()
def change(
    name: Annotated[str, typer.Argument(help="Name or number.")],
    base_model: Annotated[str | None, typer.Option(help="Name the model server knows it by.")] = None,
    base_directory: Annotated[str | None, typer.Option(help=BASE_DIRECTORY)] = None,
    system_prompt: Annotated[str | None, typer.Option(help="What the worker is told first.")] = None,
    sampling: Annotated[list[str] | None, typer.Option(help=f"{SAMPLING} What is not named stays.")] = None,
    no_sampling: Annotated[bool, typer.Option("--no-sampling", help="As usual: none of them is set.")] = False,
    fallback: Annotated[list[str] | None, typer.Option(help=FALLBACK)] = None,
    no_fallbacks: Annotated[bool, typer.Option("--no-fallbacks", help="Nobody answers in its place.")] = False,
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Change a worker's base weights, what it is told first, how it samples, or who answers in its place."""
    if fallback and no_fallbacks:
        raise typer.BadParameter("wanted --fallback or --no-fallbacks, found both")
    if sampling and no_sampling:
        raise typer.BadParameter("wanted --sampling or --no-sampling, found both")
    asked = {"base_model": base_model, "base_directory": base_directory, "system_prompt": system_prompt}
    changes: dict[str, Any] = {field: value for field, value in asked.items() if value is not None}
    if fallback or no_fallbacks:
        changes["fallbacks"] = fallback or []
    numbers = read_numbers("--sampling", sampling or [])
    if not (changes or numbers or no_sampling):
        words = "--base-model, --base-directory, --system-prompt, --sampling or --fallback"
        raise typer.BadParameter(f"say what changes: {words}")
    with open_client() as client:
        worker = find_worker(client, name, project)
        if numbers or no_sampling:
            changes["sampling"] = {} if no_sampling else {**worker["sampling"], **numbers}
        worker = client.change_worker(worker["id"], **changes)
    if as_json:
        print_json(worker)
    else:
        typer.echo(f"{worker['name']} is changed")
        _say_base(worker)


@app.command()
def compare(
    name: Annotated[str, typer.Argument(help="Name or number.")], project: Project = "", as_json: AsJson = False
) -> None:
    """Compare a worker's base weights with what its model server serves; exit 1 where they are not the same."""
    with open_client() as client:
        worker = client.compare_base(find_worker(client, name, project)["id"])
    found = worker["base_compared"] or {"is_good": not worker["base_missing"], "words": worker["base_missing"]}
    print_result(found, found["words"] or "it is trained on the built-in model", as_json=as_json)
    if not found["is_good"]:
        raise typer.Exit(1)


def _say_base(worker: "Json") -> None:
    facts = worker["base_facts"]
    if worker["untrained"]:
        typer.echo(f"it works and trains nothing: {worker['untrained']}")
        if worker["untrained"] == worker["base_missing"]:
            typer.echo(
                f"say it: tentalis worker change {worker['name']} --project {worker['project']} --base-directory DIR"
            )
    elif facts:
        size = f", {facts['parameters']:,} parameters" if facts["parameters"] else ""
        typer.echo(
            f"its base weights: {worker['base_directory']}, {facts['model_type']}{size}, {facts['fingerprint'][:12]}"
        )


@app.command()
def learn(
    name: Annotated[str, typer.Argument(help="Name or number.")],
    learns_with: Annotated[str, typer.Option("--with", help="Name of the worker whose adapters it is to teach.")] = "",
    alone: Annotated[bool, typer.Option("--alone", help="It begins a line of its own, at the base model.")] = False,
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Say whose line of adapters a worker teaches and is served by."""
    if alone == bool(learns_with):
        raise typer.BadParameter("say whom it learns with: --with NAME, or --alone")
    with open_client() as client:
        worker = client.change_worker(find_worker(client, name, project)["id"], learns_with=learns_with or None)
    print_result(
        worker, f"{worker['name']} learns {'with ' + learns_with if learns_with else 'alone'}", as_json=as_json
    )


@app.command()
def supervise(
    name: Annotated[str, typer.Argument(help="Name or number.")],
    tool: Annotated[list[str] | None, typer.Option(help="Tools that wait, as a pattern; repeatable.")] = None,
    except_tool: Annotated[list[str] | None, typer.Option(help="Tools that never wait; repeatable.")] = None,
    messages: Annotated[bool, typer.Option("--messages", help="Messages wait.")] = False,
    answers: Annotated[bool, typer.Option("--answers", help="Answers wait.")] = False,
    agents_decide: Annotated[bool, typer.Option("--agents-decide", help="Other agents decide too.")] = False,
    model_decides: Annotated[bool, typer.Option("--model-decides", help="The model that judges goes first.")] = False,
    supervisor: Annotated[str, typer.Option(help="A program of the installation goes first, by its name.")] = "",
    deadline_s: Annotated[int, typer.Option("--deadline", min=5, help="Seconds until it is decided by itself.")] = 300,
    on_timeout: Annotated[str, typer.Option(help="When nobody comes: approve, reject or fail.")] = "reject",
    off: Annotated[bool, typer.Option("--off", help="Nothing waits.")] = False,
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Say which actions of a worker wait for a person, or another agent."""
    if not (off or tool or messages or answers):
        raise typer.BadParameter("say what waits: --tool, --messages or --answers; or --off")
    rules = {
        "tools": tool or [],
        "except_tools": except_tool or [],
        "messages": messages,
        "answers": answers,
        "agents_decide": agents_decide,
        "model_decides": model_decides,
        "supervisor": supervisor,
        "deadline_s": deadline_s,
        "on_timeout": on_timeout,
    }
    with open_client() as client:
        worker = client.change_worker(find_worker(client, name, project)["id"], supervision={} if off else rules)
    print_result(worker, f"{worker['name']} {'acts alone' if off else 'asks before it acts'}", as_json=as_json)


def find_worker(client: "Client", name: str, project: str) -> "Json":
    """A worker by number, or by name where that is unique. Raises typer.BadParameter where it is not."""
    if name.isdigit():
        return client.get_worker(int(name))
    return find_by_name(list_rows(client, client.list_workers, name=name, project=project), name, "worker")
