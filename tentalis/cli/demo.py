"""`tentalis demo`: start the embedded stack, run the closed loop on it, leave the console's address."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tentalis.cli.kept_model import keep_model
from tentalis.cli.starting import read_starter
from tentalis.platform.home import Home
from tentalis.platform.stack import PROJECT_DIRECTORY
from tentalis.platform.up import launch_stack

Updates = Annotated[
    int | None, typer.Option(min=1, max=10_000, help="Training updates; default: 24 on the desk, 4 on anything else.")
]
DESK_UPDATES, SLOW_UPDATES = 24, 4
Seed = Annotated[int, typer.Option(min=0, help="Decides tickets and sampling.")]
Keep = Annotated[bool, typer.Option("--keep", help="Leave everything running.")]
Model = Annotated[
    str,
    typer.Option(help="Learns on --from: one kept, or what `model get` or `add` takes; default: the built-in one."),
]
AcceptLicence = Annotated[
    bool, typer.Option("--accept-licence", help="You have read the terms of --model and agree: do not ask.")
]
Source = Annotated[str, typer.Option("--from", help="What it learns on: support-desk, or FILE.json of the same form.")]
Seconds = Annotated[float, typer.Option("--install-s", hidden=True)]


def demo(
    updates: Updates = None,
    seed: Seed = 0,
    keep: Keep = False,
    model: Model = "",
    source: Source = "",
    accept_licence: AcceptLicence = False,
    install_s: Seconds = 0.0,
) -> None:
    """Watch a worker learn a company's rules from its manager."""
    home = Home.find(os.environ)
    starter = read_starter(source or "support-desk", seed=seed + 1) if model or source else {}
    model = model and keep_model(home, model, accept_licence=accept_licence)
    updates = updates or (SLOW_UPDATES if starter else DESK_UPDATES)
    stack = launch_stack(home, os.environ, dies_with_us=not keep)
    try:
        environment = stack.environment(os.environ)
        console_url = stack.state().addresses["console_url"]
        argv = [sys.executable, "-m", "django", "demo", "--updates", str(updates), "--seed", str(seed)]
        if starter:
            argv += ["--imitation", json.dumps(starter["shown"]["recipe"])]
            argv += ["--project", _make_project(starter, model, environment)]
        argv += ["--install-s", str(install_s), "--console-url", console_url]
        done = subprocess.run(argv, env=environment, cwd=PROJECT_DIRECTORY, check=False)
    finally:
        if not keep:
            stack.stop()
    if keep:
        typer.echo(
            f"{console_url}: sign in as `admin`, admin_password is in {home.config_file}; "
            f"TENTALIS_HOME={home.root} tentalis down stops it",
            err=True,
        )
    raise typer.Exit(done.returncode)


def _make_project(starter: Mapping[str, Any], model: str, environment: Mapping[str, str]) -> str:
    """Make a project to show the loop on, whose checks judge alone; its slug."""
    slug = f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
    told = {**starter, "project": {**starter["project"], "review_policy": {"who": "none"}}}
    argv = [sys.executable, "-m", "tentalis", "project", "new", slug, "--from", "-"]
    argv += ["--model", model] if model else []
    done = subprocess.run(argv, env=environment, cwd=PROJECT_DIRECTORY, input=json.dumps(told), text=True, check=False)
    if done.returncode:
        raise typer.Exit(done.returncode)
    return slug
