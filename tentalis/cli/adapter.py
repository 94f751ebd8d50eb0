"""Adapters: what was learnt, its verdicts, and what serves."""

import subprocess
import sys
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated
from zipfile import ZipFile

import typer

from tentalis.cli.output import AsJson, Limit, Project, print_json, print_row, print_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tentalis.client import Client, Json

app = typer.Typer(no_args_is_help=True)
FORMATS = ("peft", "merged", "gguf", "ollama")
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
    from tentalis.cli.session import open_client

    filters = {"project": project, "worker": worker, "state": state}
    with open_client() as client:
        given = {name: value for name, value in filters.items() if value}
        rows = list(islice(client.iterate(client.list_adapters, limit=min(limit, 200), **given), limit))
    columns = ("id", "name", "state", "is_anchor", "parent", "run", "created_at")
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
    from tentalis.cli.session import open_client
    from tentalis.cli.worker import find_worker

    with open_client() as client:
        _tell(client.roll_back_worker(find_worker(client, worker, project)["id"]), as_json=as_json)


@app.command()
def export(
    name: Name,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where; default: NAME.zip, or a directory NAME.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="peft, merged, gguf or ollama.")] = "peft",
    base: Annotated[str, typer.Option(help="Directory of the base model, for all but peft.")] = "desk",
    converter: Annotated[Path | None, typer.Option(help="llama.cpp's convert_lora_to_gguf.py, for gguf.")] = None,
    ollama_model: Annotated[str, typer.Option(help="What Ollama calls the base model, like llama3.2:1b.")] = "",
    as_json: AsJson = False,
) -> None:
    """Save an adapter: as a zip in PEFT's layout, merged into its base model, or for llama.cpp or Ollama.

    Merging and converting happen on this machine. Nothing is merged into a quantised base. Ollama reads adapters of
    Llama, Mistral and Gemma 2 bases; of others it takes what llama.cpp's converter wrote.
    """
    if form not in FORMATS:
        raise typer.BadParameter(f"format must be one of {', '.join(FORMATS)}, found {form!r}")
    with open_adapter(name) as (client, adapter), TemporaryDirectory() as scratch:
        target = out or Path(f"{adapter['name']}.zip" if form == "peft" else f"{adapter['name']}-{form}")
        archive = target if form == "peft" else Path(scratch) / "adapter.zip"
        size = client.download(f"adapters/{adapter['id']}/download", archive)
        if form != "peft":
            _convert(archive, Path(scratch) / "adapter", form, target, base, converter, ollama_model)
    if as_json:
        print_json({"file": str(target), "format": form, "size_bytes": size, "sha256": adapter["sha256"]})
    else:
        typer.echo(f"{target}: {size} bytes" if form == "peft" else str(target))


def _convert(
    archive: Path, directory: Path, form: str, out: Path, base: str, converter: Path | None, ollama_model: str
) -> None:
    """Have the training box's own program write it: torch is not loaded here."""
    with ZipFile(archive) as file:
        file.extractall(directory)
    manifest = next(directory.rglob("adapter_config.json"), None)
    if manifest is None:
        raise typer.BadParameter("the download holds no adapter_config.json")
    argv = [sys.executable, "-m", "gpu_workers.exporting", str(manifest.parent), "--format", form, "--base", base]
    argv += ["--out", str(out), *(["--converter", str(converter)] if converter else [])]
    argv += ["--ollama-model", ollama_model] if ollama_model else []
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        typer.echo(done.stderr.strip(), err=True)
        raise typer.Exit(1)


@contextmanager
def open_adapter(name: str) -> "Iterator[tuple[Client, Json]]":
    """A client, and the adapter of this number or name.

    Raises:
        typer.BadParameter: there is none.
    """
    from tentalis.cli.session import open_client

    with open_client() as client:
        yield client, find_adapter(client, name)


def find_adapter(client: "Client", name: str) -> "Json":
    """An adapter by number or name. Raises typer.BadParameter where there is none."""
    from tentalis.cli.session import find_by_name

    if name.isdigit():
        return client.get_adapter(int(name))
    return find_by_name(list(client.iterate(client.list_adapters, name=name)), name, "adapter")


def _tell(deployment: "Json", *, as_json: bool) -> None:
    if as_json:
        print_json(deployment)
    else:
        typer.echo(f"{deployment['worker']} is served by {deployment['adapter'] or 'the base model'}")
