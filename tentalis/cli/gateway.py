"""`tentalis gateway`."""

import os
import sys
from typing import Annotated

import typer

from tentalis.platform.config import load_config
from tentalis.platform.home import Home
from tentalis.platform.stack import PROJECT_DIRECTORY, web_environment
from tentalis.platform.state import read_state


def gateway(
    host: Annotated[str | None, typer.Option(help="Address to bind; default: TENTALIS_GATEWAY_HOST.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to bind; 0: any.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes at that port.")] = None,
) -> None:
    """Serve agents in the foreground: models behind one address, with every token kept.

    `tentalis up` starts one; this is another beside it, or one of its own where TENTALIS_DATABASE_URL and
    TENTALIS_REDIS_URL say which platform it belongs to. Prints its port when it listens.
    """
    home = Home.find(os.environ)
    state = read_state(home)
    environment = dict(os.environ)
    if state is not None and state.is_alive() and home.config_file.exists():
        environment |= web_environment(home, load_config(home), os.environ, state.addresses)
        if port is None and "TENTALIS_GATEWAY_PORT" not in os.environ:
            port = 0  # the usual one is the running stack's
    argv = [sys.executable, "-m", "apps.gateway"]
    argv += [] if host is None else ["--host", host]
    argv += [] if port is None else ["--port", str(port)]
    argv += [] if workers is None else ["--workers", str(workers)]
    os.chdir(PROJECT_DIRECTORY)
    os.execve(sys.executable, argv, environment)  # noqa: S606 - this process becomes the gateway
