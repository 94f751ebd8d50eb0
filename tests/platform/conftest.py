"""Homes and environments of their own for the tests of the local stack."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tentalis.platform.home import Home
from tests.chaos.stage import make_environ


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def environ(home: Home) -> dict[str, str]:
    """This machine's environment without any Tentalis setting but a home and free ports of its own."""
    return make_environ() | {"TENTALIS_HOME": str(home.root)}


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]
