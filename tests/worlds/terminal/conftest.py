"""One sandbox host for the terminal's tests."""

from collections.abc import Iterator

import pytest
from django.test import override_settings

from apps.worlds.sandboxes import open_client
from apps.worlds.terminal import WORLD
from apps.worlds.terminal.world import TerminalWorld
from tentalis.sandbox.client import start_host
from tests.sandbox.conftest import find_obstacle


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TerminalWorld]:
    """The world, with a host to ask; at the end nothing may be left in it."""
    if obstacle := find_obstacle():
        pytest.skip(obstacle)
    directory = tmp_path_factory.mktemp("host")
    with start_host(directory), override_settings(SANDBOXES=directory):
        yield WORLD
        assert open_client().describe()["sandboxes"] == 0
        open_client().close()
