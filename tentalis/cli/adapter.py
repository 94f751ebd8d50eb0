"""Adapters: what was learnt, its verdicts, and what serves."""

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tentalis.cli.exporting import Base, Converter, Dtype, Form, OllamaModel, Out, check_form, save_adapter
from tentalis.cli.output import AsJson, Limit, Project, print_json, print_result, print_row, print_rows
from tentalis.cli.session import find_by_name, list_rows, open_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tentalis.client import Client, Json

app = typer.Typer(no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Name or number of the adapter.")]


@app.command("list")
def list_adapters(
    project: Project = "",
    worker: Annotated[str, typer.Option("--worker", "-w")] = "",
    state: Annotated[str, typer.Option(help="candidate, quarantined, verified, deployed, retired or refused.")] = "",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List adapters, newest first."""
    with open_client() as client:
        rows = list_rows(client, client.list_adapters, limit, project=project, worker=worker, state=state)
    columns = ("id", "name", "state", "waits_for", "is_anchor", "parent", "run", "created_at")
    print_rows(rows, columns, as_json=as_json, empty="no adapters")


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show an adapter, its verdicts and where it comes from."""
    with open_adapter(name) as (client, adapter):
        verdicts = list(client.iterate(client.list_verdicts, adapter_id=adapter["id"]))
        lineage = client.get_provenance(adapter["id"])["lineage"]
    if as_json:
        print_json({**adapter, "verdicts": verdicts, "lineage": lineage})
        return
    print_row(adapter, as_json=False, skip={"manifest"})
    typer.echo()
    print_rows(verdicts, ("question", "outcome", "words"), as_json=False, empty="no verdicts yet")
    typer.echo()
    print_rows(lineage, ("adapter", "run", "rollouts", "tasks", "authors"), as_json=False, empty="")


@app.command()
def regressions(
    name: Name,
    measure: Annotated[bool, typer.Option("--measure", help="Ask it those corrections now.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show which corrections of answers before it still hold."""
    with open_adapter(name) as (client, adapter):
        asked = client.ask_regressions(adapter["id"])["results"] if measure else []
        found = client.get_regressions(adapter["id"])
    if as_json:
        print_json(found | {"asked": [one["id"] for one in asked]})
        return
    for one in asked:
        typer.echo(f"evaluation {one['id']}: {one['state']}")
    print_row(found, as_json=False, skip={"cases"})
    columns = ("id", "item", "adapter", "holds", "outcome", "evaluation")
    print_rows(found["cases"], columns, as_json=False, empty="no corrections before it")


@app.command()
def promote(name: Name, as_json: AsJson = False) -> None:
    """Put an adapter into service by your decision."""
    with open_adapter(name) as (client, adapter):
        _tell(client.promote_adapter(adapter["id"]), as_json=as_json)


@app.command()
def quarantine(
    name: Name,
    reason: Annotated[str, typer.Option("--reason", "-r", help="What is suspicious.")],
    as_json: AsJson = False,
) -> None:
    """Put an adapter under suspicion: it cannot serve before somebody releases it."""
    with open_adapter(name) as (client, adapter):
        print_row(client.quarantine_adapter(adapter["id"], reason=reason), as_json=as_json)


@app.command()
def compare(name: Name, as_json: AsJson = False) -> None:
    """Have people compare an adapter's answers blindly with those of what serves, where the gate could not decide."""
    with open_adapter(name) as (client, adapter):
        print_row(client.compare_adapter(adapter["id"]), as_json=as_json, skip={"manifest"})


@app.command()
def release(
    name: Name,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why it is harmless.")],
    as_json: AsJson = False,
) -> None:
    """Let an adapter out of quarantine, so that it may be promoted."""
    with open_adapter(name) as (client, adapter):
        print_row(client.release_adapter(adapter["id"], reason=reason), as_json=as_json)


@app.command()
def rollback(
    worker: Annotated[str, typer.Argument(help="Name or number of the worker.")],
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Return a worker to what served it before."""
    from tentalis.cli.worker import find_worker

    with open_client() as client:
        _tell(client.roll_back_worker(find_worker(client, worker, project)["id"]), as_json=as_json)


@app.command()
def export(
    name: Name,
    out: Out = None,
    form: Form = "peft",
    base: Base = "",
    converter: Converter = None,
    ollama_model: OllamaModel = "",
    dtype: Dtype = "auto",
    as_json: AsJson = False,
) -> None:
    """Save an adapter: as a zip in PEFT's layout, merged into its base model, or for llama.cpp or Ollama.

    Merging and converting happen on this machine. Nothing is merged into a quantised base. Ollama reads adapters of
    Llama, Mistral and Gemma 2 bases; of others it takes what llama.cpp's converter wrote.
    """
    check_form(form, dtype)
    with open_adapter(name) as (client, adapter):
        save_adapter(
            client,
            f"adapters/{adapter['id']}/download",
            name=adapter["name"],
            sha256=adapter["sha256"],
            form=form,
            out=out,
            base=base,
            converter=converter,
            ollama_model=ollama_model,
            dtype=dtype,
            as_json=as_json,
        )


@contextmanager
def open_adapter(name: str) -> "Iterator[tuple[Client, Json]]":
    """A client, and the adapter of this number or name.

    Raises:
        typer.BadParameter: there is none.
    """
    with open_client() as client:
        yield client, find_adapter(client, name)


def find_adapter(client: "Client", name: str) -> "Json":
    """An adapter by number or name. Raises typer.BadParameter where there is none."""
    if name.isdigit():
        return client.get_adapter(int(name))
    return find_by_name(list_rows(client, client.list_adapters, name=name), name, "adapter")


def _tell(deployment: "Json", *, as_json: bool) -> None:
    print_result(
        deployment, f"{deployment['worker']} is served by {deployment['adapter'] or 'the base model'}", as_json=as_json
    )
