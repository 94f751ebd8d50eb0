"""Projects: a team's space."""

import json
import shlex
from typing import Annotated, Any

import typer

from tentalis.cli.output import AsJson, print_result, print_row, print_rows
from tentalis.cli.session import choose_project, list_rows, open_client
from tentalis.cli.starting import read_starter, start_project
from tentalis.cli.support_desk import SEED
from tentalis.core.field_limits import MAX_HELD_OUT_PERCENT

app = typer.Typer(no_args_is_help=True)
Slug = Annotated[str, typer.Argument(help="Slug of the project; default: TENTALIS_PROJECT, or your only one.")]


@app.command("list")
def list_projects(
    archived: Annotated[bool, typer.Option("--archived", help="Those that were archived.")] = False,
    as_json: AsJson = False,
) -> None:
    """List your projects; archived ones only when asked for."""
    with open_client() as client:
        rows = list_rows(client, client.list_projects, is_archived=archived or None)
    columns = ("id", "slug", "name", "group_size", "batch_tasks", "learning_enabled", *(["archived_at"] * archived))
    print_rows(rows, columns, as_json=as_json, empty="no projects")


@app.command()
def create(
    slug: Annotated[str, typer.Argument(help="Lower-case letters, digits and hyphens.")],
    name: Annotated[str, typer.Option(help="Name people read; default: the slug.")] = "",
    as_json: AsJson = False,
) -> None:
    """Make a project; you become its owner."""
    with open_client() as client:
        project = client.create_project(slug=slug, name=name or slug)
    print_result(project, f"made project {project['slug']}", as_json=as_json)


@app.command("new")
def make_from(
    slug: Annotated[str, typer.Argument(help="Lower-case letters, digits and hyphens.")],
    source: Annotated[str, typer.Option("--from", help="support-desk, or FILE.json of the same form.")],
    server: Annotated[
        str, typer.Option(help="Model server of its worker, by name; default: the installation's own.")
    ] = "",
    seed: Annotated[int, typer.Option(min=0, help="Decides what is made up.")] = SEED,
    model: Annotated[str, typer.Option(help="Model of the worker: its server's name for it, or one kept here.")] = "",
    tasks: Annotated[int, typer.Option(min=0, help="So many of the tickets to train on are submitted at once.")] = 0,
) -> None:
    """Make a project with its checks, tasks to be measured on, and a worker, as a file says."""
    told = read_starter(source, seed=seed)
    with open_client() as client:
        for words in start_project(client, slug, told, server=server, model=model, tasks=tasks):
            typer.echo(words)


@app.command()
def show(slug: Slug = "", as_json: AsJson = False) -> None:
    """Show a project's settings."""
    with open_client() as client:
        print_row(client.get_project(choose_project(client, slug, command="tentalis project show")), as_json=as_json)


@app.command()
def rename(
    slug: Annotated[str, typer.Argument(help="Slug of the project; it stays.")],
    name: Annotated[str, typer.Argument(help="Name people read.")],
) -> None:
    """Give a project another name."""
    with open_client() as client:
        project = client.change_project(slug, name=name)
    typer.echo(f"{project['slug']} is called {project['name']} now")


@app.command("set")
def set_field(
    field: Annotated[str, typer.Argument(help="As `project show` names it: recipe, review_policy, batch_tasks, …")],
    value: Annotated[str, typer.Argument(help="JSON, which takes the place of what stands there; else a text.")],
    slug: Slug = "",
) -> None:
    """Change a setting of a project, like `recipe '{"w_opd": 0}'`; what cannot be is refused by name."""
    with open_client() as client:
        chosen = choose_project(client, slug, command=f"tentalis project set {field} {shlex.quote(value)}")
        project = client.change_project(chosen, **{field: _read_value(value)})
    typer.echo(f"{field} of {project['slug']} is {json.dumps(project[field], ensure_ascii=False)} now")


def _read_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


@app.command("hold-out")
def hold_out(
    percent: Annotated[int, typer.Argument(min=0, max=MAX_HELD_OUT_PERCENT, help="Share of its own work; 0: none.")],
    slug: Slug = "",
) -> None:
    """Put a share of a project's own work aside as it comes, to be measured on and never learnt from."""
    with open_client() as client:
        chosen = choose_project(client, slug, command=f"tentalis project hold-out {percent}")
        project = client.change_project(chosen, held_out_percent=percent)
    typer.echo(f"{project['slug']} puts {project['held_out_percent']} % of its own work aside")


@app.command()
def archive(slug: Annotated[str, typer.Argument(help="Slug of the project.")]) -> None:
    """Take no new task and no gateway call from now on; nothing is deleted, and `unarchive` undoes it."""
    with open_client() as client:
        project = client.archive_project(slug)
        open_work = client.why(slug)["findings"]
    typer.echo(f"{project['slug']} is archived")
    for finding in open_work:
        typer.echo(f"  {finding['count']:>6}  {finding['words']}")


@app.command()
def unarchive(slug: Annotated[str, typer.Argument(help="Slug of the project.")]) -> None:
    """Take an archived project up again, as it was."""
    with open_client() as client:
        project = client.unarchive_project(slug)
    typer.echo(f"{project['slug']} takes tasks and gateway calls again")


@app.command()
def why(slug: Slug = "", as_json: AsJson = False) -> None:
    """Show the training status: what the next training waits for."""
    with open_client() as client:
        findings = client.why(choose_project(client, slug, command="tentalis project why"))["findings"]
    print_rows(findings, ("count", "words"), as_json=as_json, empty="nothing blocks training")


@app.command()
def judges(
    slug: Slug = "",
    who: Annotated[str, typer.Option(help="human, ai, both, or none: references and scorers alone.")] = "",
    rate: Annotated[float | None, typer.Option(min=0, max=1, help="Share of the tasks that are judged.")] = None,
    human_rate: Annotated[
        float | None, typer.Option(min=0, max=1, help="Where both judge: share of these that a person judges as well.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Of the AI manager: SERVER/MODEL; empty: the installation's.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show who judges and how much of the work, or change it with any of the options."""
    said = {"who": who or None, "rate": rate, "human_rate": human_rate, "model": model}
    changes = {name: value for name, value in said.items() if value is not None}
    with open_client() as client:
        chosen = choose_project(client, slug, command="tentalis project judges")
        found = client.choose_judges(chosen, **changes) if changes else client.get_judges(chosen)
    print_row(found, as_json=as_json, skip={"left_open"})
    if found["left_open"] and not as_json:
        typer.echo(
            f"open reviews of who is not asked any more: {found['left_open']}; judge or skip them, or they wait until "
            f"they are due: tentalis review list --project {chosen}"
        )
