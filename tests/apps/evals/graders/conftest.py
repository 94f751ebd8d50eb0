"""One sandbox host for programs."""

from collections.abc import Iterator

import pytest
from django.test import override_settings

from apps.worlds.sandboxes import open_client
from tentalis.sandbox.client import start_host
from tests.sandbox.conftest import find_obstacle


@pytest.fixture(scope="package")
def sandboxes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A host to ask; at the end nothing may be left in it."""
    if obstacle := find_obstacle():
        pytest.skip(obstacle)
    directory = tmp_path_factory.mktemp("host")
    with start_host(directory, warm=1), override_settings(SANDBOXES=directory):
        yield
        assert open_client().describe()["sandboxes"] == 0
        open_client().close()
