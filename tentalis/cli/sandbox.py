"""Sandboxes of this machine, from the command line."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from tentalis.cli.output import AsJson
from tentalis.sandbox.client import SandboxClient, start_host
from tentalis.sandbox.frames import DEFAULT_TIMEOUT_S, MAX_PAYLOAD_BYTES
from tentalis.sandbox.limits import Limits

app = typer.Typer(no_args_is_help=True)
MIB = 2**20


@app.callback()
def root() -> None:
    """Run what nobody trusts."""


@app.command()
def run(
    image: Annotated[Path, typer.Argument(help="A directory whose files are laid over the sandbox's root.")],
    command: Annotated[list[str], typer.Argument(help="The program and its arguments, behind --.")],
    timeout: Annotated[float, typer.Option(help="Seconds until it is killed.")] = DEFAULT_TIMEOUT_S,
    memory: Annotated[int, typer.Option(help="MiB of memory.")] = Limits().memory_bytes // MIB,
    disk: Annotated[int, typer.Option(help="MiB that it may write.")] = Limits().disk_bytes // MIB,
    processes: Annotated[int, typer.Option(help="Processes at the same time.")] = Limits().processes,
    as_json: AsJson = False,
) -> None:
    """Run a program that nobody trusts: no network, nothing of this machine but /usr, and nothing left behind.

    Its files are the image's, and what it changes of them is thrown away. Exits as the program does; 124 when its time
    was over.
    """
    limits = {
        "memory_bytes": memory * MIB,
        "disk_bytes": disk * MIB,
        "processes": processes,
        "lifetime_s": timeout + 60,
    }

    def show(stream: str, data: bytes) -> None:
        place = sys.stderr if stream == "err" else sys.stdout
        place.buffer.write(data)
        place.buffer.flush()

    with tempfile.TemporaryDirectory(prefix="tentalis-sandbox-") as directory, start_host(Path(directory), warm=0):
        client = SandboxClient(Path(directory))
        sandbox = client.create(client.add_image(image), limits=limits)
        stdin = b"" if sys.stdin.isatty() else sys.stdin.buffer.read(MAX_PAYLOAD_BYTES + 1)
        if len(stdin) > MAX_PAYLOAD_BYTES:
            raise typer.BadParameter(f"standard input: wanted at most {MAX_PAYLOAD_BYTES:,} bytes, found more")
        result = client.run(
            sandbox, command, stdin=stdin, timeout_s=timeout, on_output=None if as_json else show
        )  # fmt: skip
        client.close()
    if as_json:
        words = {name: getattr(result, name).decode(errors="replace") for name in ("out", "err")}
        typer.echo(json.dumps({**vars(result), **words}))
    elif result.dropped:
        typer.echo(f"{result.dropped:,} bytes of its output were beyond the limit, and dropped", err=True)
    if result.timed_out:
        typer.echo(f"it was killed: it took longer than {timeout:g} s", err=True)
        raise typer.Exit(124)
    raise typer.Exit(result.code)
