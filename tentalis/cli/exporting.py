"""Saving an adapter, a worker's or a manager's: a zip in PEFT's layout, or what other programs load, written here."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated
from zipfile import ZipFile

import typer

from tentalis.cli.output import print_result

if TYPE_CHECKING:
    from tentalis.client import Client

FORMATS = ("peft", "merged", "gguf", "ollama")
DTYPES = ("auto", "float32")
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Where; default: NAME.zip, or a directory NAME.")]
Form = Annotated[str, typer.Option("--format", help="peft, merged, gguf or ollama.")]
Base = Annotated[
    str,
    typer.Option(help="Directory of the base model, for all but peft; default: where the adapter says that it was."),
]
Converter = Annotated[Path | None, typer.Option(help="llama.cpp's convert_lora_to_gguf.py, for gguf.")]
Dtype = Annotated[
    str, typer.Option(help="Of merged weights: auto, the base's own, or float32, into which no adapter is rounded.")
]
OllamaModel = Annotated[str, typer.Option(help="What Ollama calls the base model, like llama3.2:1b.")]


def check_form(form: str, dtype: str) -> None:
    """Raises typer.BadParameter where nothing is written in such a form."""
    if dtype not in DTYPES:
        raise typer.BadParameter(f"dtype must be one of {', '.join(DTYPES)}, found {dtype!r}")
    if form not in FORMATS:
        raise typer.BadParameter(f"format must be one of {', '.join(FORMATS)}, found {form!r}")


def save_adapter(
    client: "Client",
    path: str,
    *,
    name: str,
    sha256: str,
    form: str,
    out: Path | None,
    base: str,
    converter: Path | None,
    ollama_model: str,
    dtype: str,
    as_json: bool,
) -> None:
    """Download an adapter, write it in the form asked for, and say where it is.

    Args:
        path: of its download.
    Raises:
        typer.BadParameter: the download holds no adapter.
        typer.Exit: it cannot be written so; what was wrong is on stderr.
    """
    with TemporaryDirectory() as scratch:
        target = out or Path(f"{name}.zip" if form == "peft" else f"{name}-{form}")
        archive = target if form == "peft" else Path(scratch) / "adapter.zip"
        size = client.download(path, archive)
        if form != "peft":
            _convert(archive, Path(scratch) / "adapter", form, target, base, converter, ollama_model, dtype)
    print_result(
        {"file": str(target), "format": form, "size_bytes": size, "sha256": sha256},
        f"{target}: {size} bytes" if form == "peft" else str(target),
        as_json=as_json,
    )


def _convert(
    archive: Path,
    directory: Path,
    form: str,
    out: Path,
    base: str,
    converter: Path | None,
    ollama_model: str,
    dtype: str,
) -> None:
    """Have the training machine's own program write it: torch is not loaded here."""
    with ZipFile(archive) as file:
        file.extractall(directory)
    manifest = next(directory.rglob("adapter_config.json"), None)
    if manifest is None:
        raise typer.BadParameter("the download holds no adapter_config.json")
    argv = [sys.executable, "-m", "gpu_workers.exporting", str(manifest.parent), "--format", form]
    argv += ["--base", base] if base else []
    argv += ["--dtype", dtype, "--out", str(out), *(["--converter", str(converter)] if converter else [])]
    argv += ["--ollama-model", ollama_model] if ollama_model else []
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        typer.echo(done.stderr.strip(), err=True)
        raise typer.Exit(1)
