"""A sandbox host for all of these, and who verifies at it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tentalis.core.swe.repo_tasks import Environment
from tentalis.sandbox.client import SandboxClient, start_host
from tentalis.verification.verifying import Verifier
from tests.sandbox.conftest import find_obstacle
from tests.verification.repos import pin_wheels


@pytest.fixture(autouse=True, scope="session")
def _where_there_are_namespaces() -> None:
    if obstacle := find_obstacle():
        pytest.skip(obstacle)


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxClient]:
    directory = tmp_path_factory.mktemp("host")
    with start_host(directory, warm=1):
        client = SandboxClient(directory)
        yield client
        client.close()


@pytest.fixture(scope="session")
def verifier(client: SandboxClient) -> Verifier:
    return Verifier(lambda: client)


@pytest.fixture(scope="session")
def wheels_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in whose wheelhouse pytest and what it wants lie."""
    place = tmp_path_factory.mktemp("task")
    pin_wheels(place)
    return place


@pytest.fixture(scope="session")
def with_pytest(wheels_place: Path) -> Environment:
    return pin_wheels(wheels_place)
