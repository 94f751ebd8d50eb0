"""Commands about this machine: start and stop everything here, look at it, read its logs."""

import os
import shutil
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tentalis.platform.home import Home

if TYPE_CHECKING:
    from tentalis.platform.state import StackState

PUBLIC_ADDRESSES = ("console_url", "gateway_url", "engine_url")
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def init(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing, take the defaults.")] = False,
    home: Annotated[str, typer.Option(help="The home directory; default: TENTALIS_HOME or ~/.tentalis.")] = "",
    web_port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port of the console.")] = None,
    database_url: Annotated[str, typer.Option(help="A Postgres of yours; empty: the embedded one.")] = "",
    redis_url: Annotated[str, typer.Option(help="A Redis of yours; empty: the embedded one.")] = "",
) -> None:
    """Make the home directory with its configuration and passwords."""
    from tentalis.platform.config import Config, load_or_make_config, read_settings
    from tentalis.platform.tenancy import hold_home

    place = Home.find({"TENTALIS_HOME": home} if home else os.environ)
    if not yes:
        if not home:
            place = Home.find({"TENTALIS_HOME": typer.prompt("Home directory", default=str(place.root))})
        web_port = web_port or typer.prompt("Port of the console", default=8000, type=int)
        database_url = database_url or typer.prompt("Postgres URL (empty: the embedded one)", default="")
        redis_url = redis_url or typer.prompt("Redis URL (empty: the embedded one)", default="")
    place.prepare()
    with hold_home(place):
        config, is_new = load_or_make_config(place)
        answers = {"web_port": str(web_port or ""), "database_url": database_url, "redis_url": redis_url}
        chosen = {name: value for name, value in answers.items() if value}
        if chosen:
            config = Config(config.secrets, config.settings | chosen)
            read_settings(place, config, {})
            config.write(place)
    typer.echo(f"{'made' if is_new else 'kept'} {place.config_file}; next: tentalis up")


def up(
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return when everything is ready; keep running.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this service and what it needs; may be repeated.")
    ] = None,
    throwaway: Annotated[bool, typer.Option(hidden=True)] = False,
    quiet: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Start everything on this machine and keep it alive until Ctrl-C (twice: at once)."""
    from tentalis.platform.config import load_or_make_config
    from tentalis.platform.tenancy import hold_home
    from tentalis.platform.up import launch_stack, log_to, run_stack

    home = Home.find(os.environ)
    home.prepare()
    with hold_home(home):
        config, is_new = load_or_make_config(home)
    if is_new and not quiet:
        typer.echo(f"made {home.config_file}")
        typer.echo(f"the first admin is `admin`, password {config.secrets.admin_password} (also in that file)")
    if detach:
        stack = launch_stack(home, os.environ, is_throwaway=throwaway, only=only or (), dies_with_us=False)
        _print_addresses(stack.state())
        return
    log_to(home, to_console=not quiet)
    run_stack(home, os.environ, is_throwaway=throwaway, only=only or ())


def down(
    hard: Annotated[bool, typer.Option("--hard", help="Kill everything at once.")] = False,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait.")] = 90.0,
) -> None:
    """Stop what `up` started and wait until it is gone."""
    from tentalis.platform.up import stop_stack

    home = Home.find(os.environ)
    stop_stack(home, is_hard=hard, timeout_s=timeout)
    typer.echo(f"stopped {home.root}")


def status(as_json: Json = False) -> None:
    """Show the processes of this machine; exit 1 when one is not as it should be."""
    import json
    import time

    from tentalis.platform.processes import is_same_process
    from tentalis.platform.state import read_running_state

    home = Home.find(os.environ)
    state = read_running_state(home)
    rows: list[dict[str, Any]] = []
    for service in state.services:
        is_dead = service.pid is not None and not is_same_process(service.identity)
        uptime_s = round(time.time() - service.ready_at, 1) if service.ready_at else None
        row = asdict(service) | {"state": "dead" if is_dead else service.state, "uptime_s": uptime_s}
        rows.append({name: row[name] for name in ("name", "state", "pid", "restarts", "port", "uptime_s", "exit_code")})
    if as_json:
        addresses = {name: url for name, url in state.addresses.items() if name in PUBLIC_ADDRESSES}
        document = {"home": str(home.root), "pid": state.supervisor_pid, "phase": state.phase}
        document["is_current"] = state.is_current
        typer.echo(json.dumps(document | addresses | {"services": rows}))
    else:
        _print_table(rows)
        _print_addresses(state)
    if not state.is_current:
        free = f"{shutil.disk_usage(home.root).free / 2**20:,.0f} MiB"
        typer.echo(f"this is old: the supervisor cannot write what is true now ({home.root} has {free} free)", err=True)
    if not state.is_current or any(row["state"] not in {"ready", "done"} for row in rows):
        raise typer.Exit(1)


def logs(
    names: Annotated[list[str] | None, typer.Argument(help="Services; default: all.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines are written.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Last lines of each.")] = 20,
) -> None:
    """Show what the processes wrote."""
    from tentalis.platform.logs import choose_logs, follow_logs, read_last_lines

    files = choose_logs(Home.find(os.environ), names or ())
    width = max(len(name) for name in files)
    for name, path in files.items():
        for line in read_last_lines(path, lines):
            typer.echo(f"{name:>{width}} | {line}")
    if follow:
        with suppress(KeyboardInterrupt):
            for name, line in follow_logs(files):
                typer.echo(f"{name:>{width}} | {line}")


def serve_engine(
    model: Annotated[str, typer.Option(help="`desk`, or the directory of a Hugging Face causal LM.")] = "desk",
    host: Annotated[
        str, typer.Option(help="Address to bind; others than loopback want TENTALIS_ENGINE_KEY.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to bind.")] = 8300,
) -> None:
    """Serve a model with the local engine, in the foreground."""
    from tentalis.platform.stack import LARGE_PAGES

    argv = [sys.executable, "-m", "gpu_workers.engine", "--model", model, "--host", host, "--port", str(port)]
    # this process becomes the engine, so signals reach it
    os.execve(sys.executable, argv, LARGE_PAGES | os.environ)  # noqa: S606


def _print_addresses(state: "StackState") -> None:
    for name in PUBLIC_ADDRESSES:
        if url := state.addresses.get(name):
            typer.echo(f"{name.removesuffix('_url')}: {url}")


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for name in ("name", "state", "pid", "restarts", "port", "uptime"):
        table.add_column(name, justify="left" if name in {"name", "state"} else "right")
    for row in rows:
        uptime = "" if row["uptime_s"] is None else f"{row['uptime_s']:.0f} s"
        cells = [row[name] for name in ("name", "state", "pid", "restarts", "port")]
        table.add_row(*("" if cell is None else str(cell) for cell in cells), uptime)
    Console().print(table)
