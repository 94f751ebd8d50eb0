"""Homes and environments of their own for the tests of the local stack."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tentalis.platform.home import Home

PORT_VARIABLES = (
    "TENTALIS_POSTGRES_PORT",
    "TENTALIS_REDIS_PORT",
    "TENTALIS_WEB_PORT",
    "TENTALIS_GATEWAY_PORT",
    "TENTALIS_ENGINE_PORT",
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def environ(home: Home) -> dict[str, str]:
    """This machine's environment without any Tentalis setting but a home and free ports of its own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TENTALIS_")}
    clean.pop("DJANGO_SETTINGS_MODULE", None)
    with ExitStack() as held:
        ports = {}
        for name in PORT_VARIABLES:
            holder = held.enter_context(socket.socket())
            holder.bind(("127.0.0.1", 0))
            ports[name] = str(holder.getsockname()[1])
    return clean | ports | {"TENTALIS_HOME": str(home.root)}


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]
